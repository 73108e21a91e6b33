// Launchers' variables; the first host of a Slurm list; a port that all processes of a job find.
#include "shardkit/collective/launch_environment.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace shardkit {
namespace {

struct Launcher {
  std::string_view name;
  std::string_view rank;
  std::string_view size;
  std::string_view local_size;  ///< processes on this host; empty: the launcher does not say
  std::array<std::string_view, 2> job;  ///< what jobs differ in; empty: the launcher does not say
};

// mpirun and mpiexec may have been started in a Slurm job, or start their own processes through
// srun: then srun's variables tell of something else.
constexpr Launcher kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", {}};
constexpr Launcher kMpirun{"mpirun",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                           {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}};
constexpr Launcher kMpiexec{"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", {}};
constexpr Launcher kSrunStep{
    "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "", {"SLURM_JOB_ID", "SLURM_STEP_ID"}};
constexpr Launcher kSrun{"srun", "SLURM_PROCID", "SLURM_NTASKS", "", kSrunStep.job};

// Ports that neither the kernel hands out by itself (32768 and up) nor services have.
constexpr std::uint32_t kFirstPort = 20000;
constexpr std::uint32_t kPorts = 10000;

Result<int> read_number(const Environment& environment, std::string_view name, int lowest,
                        int highest) {
  const auto text = environment(std::string(name));
  int number = 0;
  if (text) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error == std::errc() && end == text->data() + text->size() && number >= lowest &&
        number <= highest)
      return number;
  }
  return Error(ErrorCode::kInvalidArgument, fmt::format("the environment variable {}", name))
      .expected(fmt::format("a number from {} to {}", lowest, highest))
      .found(text ? *text : "none");
}

// "node[03-05,9],other" -> "node03"
std::string first_host(std::string_view list) {
  const std::string_view entry = list.substr(0, list.find(','));
  const auto bracket = entry.find('[');
  if (bracket == std::string_view::npos) return std::string(entry);
  std::string host(entry.substr(0, bracket));
  const std::string_view numbers = entry.substr(bracket + 1);
  host += numbers.substr(0, numbers.find_first_of("-]"));
  // What follows the bracket belongs to each host.
  const auto end = list.find(']');
  if (end != std::string_view::npos) host += list.substr(end + 1, list.find(',', end) - (end + 1));
  return host;
}

std::optional<std::string> value_of(const Environment& environment, std::string_view name) {
  return environment(std::string(name));
}

// srun speaks PMI as well, and then tells the same in both ways. MPI_LOCALNRANKS is mpiexec's.
bool is_of_srun(const Environment& environment, const Launcher& srun) {
  return value_of(environment, kMpiexec.rank) == value_of(environment, srun.rank) &&
         value_of(environment, kMpiexec.size) == value_of(environment, srun.size) &&
         !value_of(environment, kMpiexec.local_size);
}

/// Whose variables count. Null: nobody's are there.
const Launcher* find_launcher(const Environment& environment) {
  for (const Launcher* each : {&kTorchrun, &kMpirun})
    if (value_of(environment, each->rank)) return each;
  const Launcher& srun = value_of(environment, kSrunStep.size) ? kSrunStep : kSrun;
  const bool has_srun = value_of(environment, srun.rank).has_value();
  const bool has_pmi =
      value_of(environment, kMpiexec.rank) && (!has_srun || value_of(environment, kMpiexec.size));
  if (has_pmi && !(has_srun && is_of_srun(environment, srun))) return &kMpiexec;
  return has_srun ? &srun : nullptr;
}

// The same for all processes of a job, another one for most other jobs.
std::optional<int> port_of_job(const Environment& environment, const Launcher& launcher) {
  std::string job;
  for (const std::string_view name : launcher.job)
    if (!name.empty()) job += value_of(environment, name).value_or("") + ".";
  if (job.find_first_not_of('.') == std::string::npos) return std::nullopt;
  std::uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return static_cast<int>(kFirstPort + hash % kPorts);
}

Result<std::string> find_master(const Environment& environment, const Launcher& launcher,
                                int size) {
  if (auto address = environment("MASTER_ADDR"); address && !address->empty()) return *address;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
    if (const auto hosts = environment(name); launcher.name == "srun" && hosts && !hosts->empty())
      return first_host(*hosts);
  if (!launcher.local_size.empty()) {
    const auto local = read_number(environment, launcher.local_size, 1, size);
    if (local.ok() && *local == size) return std::string("127.0.0.1");
  }
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{} does not say on which host rank 0 is: set MASTER_ADDR", launcher.name));
}

Result<int> find_port(const Environment& environment, const Launcher& launcher) {
  if (environment("MASTER_PORT")) {
    const bool agent_listens = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
    SHARDKIT_ASSIGN(const int port,
                    read_number(environment, "MASTER_PORT", 1, agent_listens ? 65534 : 65535));
    return agent_listens ? port + 1 : port;
  }
  if (const auto port = port_of_job(environment, launcher)) return *port;
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{} does not say at which port to meet: set MASTER_PORT", launcher.name));
}

}  // namespace

Result<LaunchEnvironment> read_launch_environment(const Environment& environment) {
  constexpr int kMostRanks = 1 << 20;
  const Launcher* launcher = find_launcher(environment);
  if (!launcher)
    return Error(ErrorCode::kNotFound,
                 "no launcher has started this process: neither RANK, OMPI_COMM_WORLD_RANK, "
                 "SLURM_PROCID nor PMI_RANK is set");
  LaunchEnvironment found;
  found.launcher = launcher->name;
  SHARDKIT_ASSIGN(found.size, read_number(environment, launcher->size, 1, kMostRanks));
  SHARDKIT_ASSIGN(found.rank, read_number(environment, launcher->rank, 0, found.size - 1));
  SHARDKIT_ASSIGN(found.master_address, find_master(environment, *launcher, found.size));
  SHARDKIT_ASSIGN(found.master_port, find_port(environment, *launcher));
  return found;
}

Result<LaunchEnvironment> read_launch_environment() {
  return read_launch_environment(process_environment());
}

}  // namespace shardkit
