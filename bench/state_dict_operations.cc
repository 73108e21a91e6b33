// bench_state_dict: operations on state dicts and snapshots, timed at a driver's word.
//
//     bench_state_dict threads|processes RANKS < commands
//
// Holds 512 MiB (32 tensors of 4096 x 1024 fp32, Shard(0)) on RANKS threads of this process, or on
// as many processes of its own over Gloo, each with a whole of its own. For each line of the input,
// "OPERATION" or "memcpy OPERATION", it prints the seconds that it took: the operation, or a bare
// memcpy by as many ranks of the bytes that must land, into memory of the same kind: fresh from the
// library's allocator (huge pages) where the operation's is, else filled before.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/collective/gloo/gloo_group.h"
#include "shardkit/collective/thread_group.h"
#include "shardkit/distributed/broadcast.h"
#include "shardkit/distributed/distribute.h"
#include "shardkit/distributed/gather.h"
#include "shardkit/snapshot/fsdp2_snapshot.h"
#include "shardkit/state/copy.h"
#include "shardkit/state/memory.h"

namespace shardkit {
namespace {

constexpr int kTensors = 32;
constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kColumns = 1024;
constexpr std::size_t kBytes = std::size_t{kTensors} * kRows * kColumns * 4;

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

void must(const Status& status) {
  if (status.ok()) return;
  std::cerr << status.error().message() << "\n";
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) must(Status(result.error()));
  return std::move(result).value();
}

/// What one rank works on.
class RankState {
 public:
  RankState(int rank, int ranks, Dict full)
      : rank_(rank), ranks_(ranks), mesh_(make_mesh(ranks)), full_(std::move(full)) {
    local_ = make_local();
    companion_ = must(create_cpu_state_dict(Value(local_)));
    snapshot_ = must(fsdp2_sharded_save_to_cpu(local_));
  }

  // The full tensors lie one behind the other in one storage, so that a memcpy can take them all.
  static Dict make_full() {
    const Tensor all = must(make_cpu_tensor(DType::kFloat32, {kTensors * kRows, kColumns}));
    std::byte* data = must(first_element(all));
    for (std::size_t i = 0; i < kBytes; ++i)
      data[i] = static_cast<std::byte>(i * 2654435761U >> 13);
    Dict full;
    for (int i = 0; i < kTensors; ++i) {
      Tensor tensor = all;
      tensor.shape = {kRows, kColumns};
      tensor.offset = i * kRows * kColumns;
      full.items.emplace_back(Value(fmt::format("layers.{}.weight", i)), Value(std::move(tensor)));
    }
    return full;
  }

  /// Makes ready and returns the operation, or the memcpy of "memcpy OPERATION". What was made last
  /// is given up first, and not while the clock runs.
  std::function<Status(ProcessGroup&)> prepare(const std::string& command) {
    result_ = {};
    made_ = {};
    landed_.clear();
    constexpr std::string_view kMemcpy = "memcpy ";
    if (command.starts_with(kMemcpy)) return prepare_memcpy(command.substr(kMemcpy.size()));
    if (command == "gather" || command == "gather to rank 0") {
      GatherOptions options;
      if (command != "gather") options.ranks_only = {0};
      return [this, options](ProcessGroup& group) -> Status {
        SHARDKIT_ASSIGN(result_, gather_state_dict(Value(local_), group, options));
        return {};
      };
    }
    if (command == "broadcast" || command == "distribute") {
      Dict target = make_meta();
      return [this, target, command](ProcessGroup& group) mutable -> Status {
        SHARDKIT_TRY(command == "broadcast" ? broadcast_state_dict(full_, target, group)
                                            : distribute_state_dict(full_, target, group));
        result_ = Value(std::move(target));
        return {};
      };
    }
    if (command == "copy")
      return [this](ProcessGroup&) -> Status {
        SHARDKIT_TRY(copy_state_dict(Value(local_), companion_));
        return {};
      };
    if (command == "snapshot")
      return [this](ProcessGroup&) -> Status {
        SHARDKIT_ASSIGN(made_, fsdp2_sharded_save_to_cpu(local_));
        return {};
      };
    if (command == "refill snapshot")
      return [this](ProcessGroup&) { return refill_snapshot(local_, snapshot_); };
    if (command == "restore snapshot")
      return [this](ProcessGroup& group) -> Status {
        SHARDKIT_TRY(
            fsdp2_sharded_load_from_cpu(local_, snapshot_, snapshot_.global_spec(), group));
        return {};
      };
    must(Error(ErrorCode::kInvalidArgument, "no such operation: " + command));
    return {};
  }

 private:
  /// What no operation can do without: the copy of what lands, into tensors of the same sizes from
  /// the same allocator, so that both pay for their memory's pages alike.
  std::function<Status(ProcessGroup&)> prepare_memcpy(const std::string& operation) {
    const bool fresh =
        operation != "copy" && operation != "refill snapshot" && operation != "restore snapshot";
    const bool whole = operation == "gather";
    const std::int64_t rows = whole ? kRows : kRows / ranks_;
    const auto land = [this, whole, rows] {
      for (std::size_t t = 0; t < full_.items.size(); ++t) {
        if (landed_.size() <= t)
          landed_.push_back(must(make_unfilled_cpu_tensor(DType::kFloat32, {rows, kColumns})));
        const auto bytes = static_cast<std::size_t>(landed_[t].bytes());
        std::memcpy(must(first_element(landed_[t])),
                    must(first_element(*full_.items[t].second.get_if<Tensor>())) +
                        (whole ? 0 : static_cast<std::size_t>(rank_) * bytes),
                    bytes);
      }
    };
    if (!fresh) land();
    return [land](ProcessGroup&) -> Status {
      land();
      return {};
    };
  }

  static std::shared_ptr<const DeviceMesh> make_mesh(int ranks) {
    std::vector<std::int64_t> members;
    for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
    return std::make_shared<const DeviceMesh>(must(DeviceMesh::make("cpu", {ranks}, members)));
  }
  Dict make_local() const {
    const auto sharding =
        std::make_shared<const Sharding>(Sharding{mesh_, {Shard{0}}, {kRows, kColumns}, {}});
    const std::int64_t rows = kRows / ranks_;
    Dict local;
    for (const auto& [name, value] : full_.items) {
      Tensor tensor = must(make_cpu_tensor(DType::kFloat32, {rows, kColumns}));
      std::memcpy(must(first_element(tensor)),
                  must(first_element(*value.get_if<Tensor>())) +
                      static_cast<std::size_t>(rank_ * rows * kColumns * 4),
                  static_cast<std::size_t>(rows * kColumns * 4));
      local.items.emplace_back(name, Value(DTensor{std::move(tensor), sharding}));
    }
    return local;
  }
  Dict make_meta() const {
    Dict meta = local_;
    for (auto& [name, value] : meta.items) {
      Tensor& local = value.get_if<DTensor>()->local;
      local.storage = std::make_shared<const Storage>(NoBytes{}, local.storage->bytes());
    }
    return meta;
  }

  int rank_;
  int ranks_;
  std::shared_ptr<const DeviceMesh> mesh_;
  Dict full_;
  Dict local_;
  Value companion_;
  Snapshot snapshot_;
  Value result_;  // what the last operation made
  Snapshot made_;
  std::vector<Tensor> landed_;
};

void run_threads(int ranks) {
  const Dict full = RankState::make_full();
  std::vector<RankState> states;
  for (int rank = 0; rank < ranks; ++rank) states.emplace_back(rank, ranks, full);
  for (std::string command; std::getline(std::cin, command);) {
    std::vector<std::function<Status(ProcessGroup&)>> work;
    for (RankState& state : states) work.push_back(state.prepare(command));
    const auto start = Clock::now();
    const auto statuses = run_ranks(ranks, [&](ProcessGroup& group) {
      return work[static_cast<std::size_t>(group.rank())](group);
    });
    const double seconds = seconds_between(start, Clock::now());
    for (const Status& status : statuses) must(status);
    std::cout << seconds << std::endl;
  }
}

/// What a process tells of a command.
struct Span {
  Clock::time_point start;
  Clock::time_point end;
};

/// A rank's process: a command of each line of its input, and its span into `output`.
void be_rank(const std::string& folder, int rank, int ranks, std::FILE* commands, int output) {
  GlooOptions options;
  options.interface = "lo";
  const auto group = must(make_gloo_group(folder, rank, ranks, options));
  RankState state(rank, ranks, RankState::make_full());
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), commands)) {
    std::string command = line.data();
    command.pop_back();
    const auto work = state.prepare(command);
    must(group->barrier());
    Span span{Clock::now(), {}};
    must(work(*group));
    span.end = Clock::now();
    if (::write(output, &span, sizeof(span)) != sizeof(span)) std::exit(1);
  }
}

/// A clock counts alike in all processes of a machine: from the moment when all are ready to that
/// when the last is done.
void run_processes(int ranks) {
  struct Child {
    std::FILE* commands;
    int spans;
  };
  std::string folder = std::filesystem::temp_directory_path() / "bench_state_dict_XXXXXX";
  if (!::mkdtemp(folder.data())) must(Error(ErrorCode::kIo, "no temporary folder"));
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    if (::pipe2(down.data(), O_CLOEXEC) != 0 || ::pipe2(up.data(), O_CLOEXEC) != 0)
      must(Error(ErrorCode::kIo, "no pipes"));
    if (::fork() == 0) {
      for (const Child& other : children) std::fclose(other.commands);
      ::close(down[1]);
      be_rank(folder, rank, ranks, ::fdopen(down[0], "r"), up[1]);
      std::exit(0);
    }
    ::close(down[0]);
    ::close(up[1]);
    children.push_back({::fdopen(down[1], "w"), up[0]});
  }
  for (std::string command; std::getline(std::cin, command);) {
    for (const Child& child : children) {
      std::fprintf(child.commands, "%s\n", command.c_str());
      std::fflush(child.commands);
    }
    Span all{Clock::time_point::max(), Clock::time_point::min()};
    for (const Child& child : children) {
      Span span;
      if (::read(child.spans, &span, sizeof(span)) != sizeof(span))
        must(Error(ErrorCode::kPeer, "a rank has failed"));
      all = {std::min(all.start, span.start), std::max(all.end, span.end)};
    }
    std::cout << seconds_between(all.start, all.end) << std::endl;
  }
  for (const Child& child : children) std::fclose(child.commands);
  while (::wait(nullptr) > 0) {
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shardkit

int main(int argc, char** argv) {
  const std::string kind = argc == 3 ? argv[1] : "";
  const int ranks = argc == 3 ? std::atoi(argv[2]) : 0;
  if (ranks < 1 || (kind != "threads" && kind != "processes")) {
    std::cerr << "bench_state_dict threads|processes RANKS < commands\n";
    return 2;
  }
  if (kind == "threads")
    shardkit::run_threads(ranks);
  else
    shardkit::run_processes(ranks);
}
