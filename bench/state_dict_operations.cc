// bench_state_dict: operations on state dicts and snapshots, timed at a driver's word.
//
//     bench_state_dict RANKS < commands
//
// Holds 512 MiB (32 tensors of 4096 x 1024 fp32, Shard(0)) on RANKS threads. For each line of the
// input, "OPERATION" or "memcpy OPERATION", it prints the seconds that it took: the operation, or a
// bare memcpy by as many threads of the bytes that must land, into memory of the same kind: fresh
// from the library's allocator (huge pages) where the operation's is, else filled before.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

class Bench {
 public:
  explicit Bench(int ranks) : ranks_(ranks), mesh_(make_mesh(ranks)) {
    full_ = make_full();
    for (int rank = 0; rank < ranks; ++rank) {
      local_.push_back(make_local(rank));
      companion_.push_back(must(create_cpu_state_dict(Value(local_.back()))));
      snapshot_.push_back(must(fsdp2_sharded_save_to_cpu(local_.back())));
    }
  }

  double run(const std::string& operation) {
    if (operation == "gather" || operation == "gather to rank 0") {
      GatherOptions options;
      if (operation != "gather") options.ranks_only = {0};
      std::vector<Value> results(local_.size());
      return on_all([&](ProcessGroup& group, std::size_t rank) -> Status {
        SHARDKIT_ASSIGN(results[rank], gather_state_dict(Value(local_[rank]), group, options));
        return {};
      });
    }
    if (operation == "broadcast" || operation == "distribute") {
      std::vector<Dict> targets(local_.size(), make_meta());
      return on_all([&](ProcessGroup& group, std::size_t rank) {
        return operation == "broadcast" ? broadcast_state_dict(full_, targets[rank], group)
                                        : distribute_state_dict(full_, targets[rank], group);
      });
    }
    if (operation == "copy")
      return on_all([&](ProcessGroup&, std::size_t rank) -> Status {
        SHARDKIT_TRY(copy_state_dict(Value(local_[rank]), companion_[rank]));
        return {};
      });
    if (operation == "snapshot") {
      std::vector<Snapshot> results(local_.size());
      return on_all([&](ProcessGroup&, std::size_t rank) -> Status {
        SHARDKIT_ASSIGN(results[rank], fsdp2_sharded_save_to_cpu(local_[rank]));
        return {};
      });
    }
    if (operation == "refill snapshot")
      return on_all([&](ProcessGroup&, std::size_t rank) {
        return refill_snapshot(local_[rank], snapshot_[rank]);
      });
    if (operation == "restore snapshot")
      return on_all([&](ProcessGroup& group, std::size_t rank) -> Status {
        SHARDKIT_TRY(fsdp2_sharded_load_from_cpu(local_[rank], snapshot_[rank],
                                                 snapshot_[rank].global_spec(), group));
        return {};
      });
    must(Error(ErrorCode::kInvalidArgument, "no such operation: " + operation));
    return 0;
  }

  /// What no operation can do without: the copy of what lands, into tensors of the same sizes from
  /// the same allocator, so that both pay for their memory's pages alike.
  double run_memcpy(const std::string& operation) {
    const bool fresh = operation != "copy" && operation != "refill snapshot" &&
                       operation != "restore snapshot";
    const std::size_t ranks = local_.size();
    const bool whole = operation == "gather";
    const std::int64_t rows = whole ? kRows : kRows / ranks_;
    std::vector<std::vector<Tensor>> landed(ranks);
    const auto land = [&](std::size_t i) {
      for (std::size_t t = 0; t < full_.items.size(); ++t) {
        if (landed[i].size() <= t)
          landed[i].push_back(must(make_unfilled_cpu_tensor(DType::kFloat32, {rows, kColumns})));
        const Tensor& tensor = landed[i][t];
        const auto bytes = static_cast<std::size_t>(tensor.bytes());
        std::memcpy(must(first_element(tensor)),
                    must(first_element(*full_.items[t].second.get_if<Tensor>())) +
                        (whole ? 0 : i * bytes),
                    bytes);
      }
    };
    if (!fresh)
      for (std::size_t i = 0; i < ranks; ++i) land(i);
    return seconds_of([&] {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < ranks; ++i) threads.emplace_back(land, i);
    });
  }

 private:
  static std::shared_ptr<const DeviceMesh> make_mesh(int ranks) {
    std::vector<std::int64_t> members;
    for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
    return std::make_shared<const DeviceMesh>(must(DeviceMesh::make("cpu", {ranks}, members)));
  }
  std::shared_ptr<const Sharding> sharding() const {
    return std::make_shared<const Sharding>(Sharding{mesh_, {Shard{0}}, {kRows, kColumns}, {}});
  }

  // The full tensors lie one behind the other in one storage, so that a memcpy can take them all.
  static Dict make_full() {
    const Tensor all = must(make_cpu_tensor(DType::kFloat32, {kTensors * kRows, kColumns}));
    std::byte* data = must(first_element(all));
    for (std::size_t i = 0; i < kBytes; ++i) data[i] = static_cast<std::byte>(i * 2654435761U >> 13);
    Dict full;
    for (int i = 0; i < kTensors; ++i) {
      Tensor tensor = all;
      tensor.shape = {kRows, kColumns};
      tensor.offset = i * kRows * kColumns;
      full.items.emplace_back(Value(fmt::format("layers.{}.weight", i)), Value(std::move(tensor)));
    }
    return full;
  }
  Dict make_local(int rank) const {
    const std::int64_t rows = kRows / ranks_;
    Dict local;
    for (const auto& [name, value] : full_.items) {
      Tensor tensor = must(make_cpu_tensor(DType::kFloat32, {rows, kColumns}));
      std::memcpy(must(first_element(tensor)),
                  must(first_element(*value.get_if<Tensor>())) +
                      static_cast<std::size_t>(rank * rows * kColumns * 4),
                  static_cast<std::size_t>(rows * kColumns * 4));
      local.items.emplace_back(name, Value(DTensor{std::move(tensor), sharding()}));
    }
    return local;
  }
  Dict make_meta() const {
    Dict meta = local_[0];
    for (auto& [name, value] : meta.items) {
      Tensor& local = value.get_if<DTensor>()->local;
      local.storage = std::make_shared<const Storage>(NoBytes{}, local.storage->bytes());
    }
    return meta;
  }

  double on_all(const std::function<Status(ProcessGroup&, std::size_t)>& fn) const {
    std::vector<Status> statuses;
    const double seconds = seconds_of([&] {
      statuses = run_ranks(ranks_, [&](ProcessGroup& group) {
        return fn(group, static_cast<std::size_t>(group.rank()));
      });
    });
    for (const Status& status : statuses) must(status);
    return seconds;
  }

  int ranks_;
  std::shared_ptr<const DeviceMesh> mesh_;
  Dict full_;
  std::vector<Dict> local_;
  std::vector<Value> companion_;
  std::vector<Snapshot> snapshot_;
};

int main_of(int ranks) {
  Bench bench(ranks);
  std::string line;
  while (std::getline(std::cin, line)) {
    constexpr std::string_view kMemcpy = "memcpy ";
    std::cout << (line.starts_with(kMemcpy) ? bench.run_memcpy(line.substr(kMemcpy.size()))
                                            : bench.run(line))
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace shardkit

int main(int argc, char** argv) {
  const int ranks = argc == 2 ? std::atoi(argv[1]) : 0;
  if (ranks < 1) {
    std::cerr << "bench_state_dict RANKS < commands\n";
    return 2;
  }
  return shardkit::main_of(ranks);
}
