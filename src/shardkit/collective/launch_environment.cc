// Launchers' variables; the first host of a Slurm list; a port that all processes of a job find.
#include "shardkit/collective/launch_environment.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace shardkit {
namespace {

struct Launcher {
  std::string_view name;
  std::string_view rank;
  std::string_view size;
  std::string_view local_size;  ///< processes on this host; empty: the launcher does not say
};

constexpr std::array kLaunchers{
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""},
    Launcher{"srun", "SLURM_PROCID", "SLURM_NTASKS", ""},
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

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
  if (end != std::string_view::npos)
    host += list.substr(end + 1, list.find(',', end) - (end + 1));
  return host;
}

// The same for all processes of a job, another one for most other jobs.
std::optional<int> port_of_job(const Environment& environment) {
  std::string job;
  for (const char* name :
       {"SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"})
    job += environment(name).value_or("") + ".";
  if (job == "....") return std::nullopt;
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
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{} does not say on which host rank 0 is: set MASTER_ADDR",
                           launcher.name));
}

Result<int> find_port(const Environment& environment, const Launcher& launcher) {
  if (environment("MASTER_PORT")) {
    const bool agent_listens = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
    SHARDKIT_ASSIGN(const int port, read_number(environment, "MASTER_PORT", 1,
                                                agent_listens ? 65534 : 65535));
    return agent_listens ? port + 1 : port;
  }
  if (const auto port = port_of_job(environment)) return *port;
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{} does not say at which port to meet: set MASTER_PORT",
                           launcher.name));
}

}  // namespace

Result<LaunchEnvironment> read_launch_environment(const Environment& environment) {
  constexpr int kMostRanks = 1 << 20;
  for (std::size_t i = 0; i < kLaunchers.size(); ++i) {
    const Launcher& launcher = kLaunchers[i];
    if (!environment(std::string(launcher.rank))) continue;
    const bool goes_by_another_name =
        i + 1 < kLaunchers.size() && kLaunchers[i + 1].rank == launcher.rank;
    if (goes_by_another_name && !environment(std::string(launcher.size))) continue;
    LaunchEnvironment found;
    found.launcher = launcher.name;
    SHARDKIT_ASSIGN(found.size, read_number(environment, launcher.size, 1, kMostRanks));
    SHARDKIT_ASSIGN(found.rank, read_number(environment, launcher.rank, 0, found.size - 1));
    SHARDKIT_ASSIGN(found.master_address, find_master(environment, launcher, found.size));
    SHARDKIT_ASSIGN(found.master_port, find_port(environment, launcher));
    return found;
  }
  return Error(ErrorCode::kNotFound,
               "no launcher has started this process: neither RANK, SLURM_PROCID, "
               "OMPI_COMM_WORLD_RANK nor PMI_RANK is set");
}

Result<LaunchEnvironment> read_launch_environment() {
  return read_launch_environment([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (!value) return std::nullopt;
    return std::string(value);
  });
}

}  // namespace shardkit
