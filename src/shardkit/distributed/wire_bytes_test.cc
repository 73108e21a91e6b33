// The bytes that operations on state dicts bring to each rank's sockets, by the system's own count:
// the elements that the rank needs, once, and what docs/distributed.md allows for the agreement.
#include <dirent.h>
#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <set>

#include "shardkit/collective/gloo/processes_test_util.h"
#include "shardkit/distributed/broadcast.h"
#include "shardkit/distributed/distribute.h"
#include "shardkit/distributed/gather.h"
#include "shardkit/distributed/whole_tensors_test_util.h"

namespace shardkit {
namespace {

using testing::empty_dtensor;
using testing::expect;
using testing::gloo_test_options;
using testing::IsOk;
using testing::make_sharding;
using testing::numbered_tensor;
using testing::TempDir;

constexpr int kRanks = 4;

std::set<int> tcp_sockets() {
  std::set<int> sockets;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* each = ::readdir(folder)) {
    const int fd = std::atoi(each->d_name);
    int protocol = 0;
    socklen_t length = sizeof(protocol);
    if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
        protocol == IPPROTO_TCP)
      sockets.insert(fd);
  }
  ::closedir(folder);
  return sockets;
}

/// What TCP has handed on or can hand on, without headers and what was sent twice.
std::int64_t received_bytes(const std::set<int>& sockets) {
  std::int64_t bytes = 0;
  for (const int fd : sockets) {
    tcp_info info{};
    socklen_t length = sizeof(info);
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) std::abort();
    bytes += static_cast<std::int64_t>(info.tcpi_bytes_received);
  }
  return bytes;
}

/// What docs/distributed.md allows beside the elements.
std::int64_t allowance(int tensors) {
  return (kRanks - 1) * (2048 + tensors * (700 + 48 * kRanks));
}

struct Sizes {
  int tensors;
  std::int64_t rows;
};

/// A state of the given sizes as an operation needs it, and what its rank must receive.
struct Case {
  std::function<Status(ProcessGroup&, const Sizes&)> run;
  std::function<std::int64_t(int rank, const Sizes&)> elements;  ///< in bytes
};

constexpr std::int64_t kRowBytes = 256 * 4;

Dict state_of(const Sizes& sizes, const std::function<Value(const Dims&)>& make) {
  Dict state;
  for (int i = 0; i < sizes.tensors; ++i)
    state.items.emplace_back(Value("layers." + std::to_string(i) + ".weight"),
                             make({sizes.rows, kRowBytes / 4}));
  return state;
}

Dict full_state(const Sizes& sizes) {
  return state_of(
      sizes, [](const Dims& shape) { return Value(numbered_tensor(DType::kFloat32, shape, 1)); });
}

Dict local_state(const Sizes& sizes, int rank, const Placement& placement) {
  return state_of(sizes, [&](const Dims& shape) {
    return Value(empty_dtensor(DType::kFloat32,
                               make_sharding({kRanks}, {0, 1, 2, 3}, {placement}, shape), rank));
  });
}

/// The same operation on states that differ in the number of rows alone, and of many tensors.
void expect_bytes_that_must_move(const Case& operation) {
  if (!gloo_is_available()) GTEST_SKIP() << "built without Gloo";
  const TempDir folder;
  const TempDir fences_folder;
  const auto statuses = testing::run_processes(kRanks, [&](int rank) -> Status {
    SHARDKIT_ASSIGN(auto group, make_gloo_group(folder.path(), rank, kRanks, gloo_test_options()));
    const auto sockets = tcp_sockets();
    // Before and after it the group is still.
    SHARDKIT_ASSIGN(auto fence,
                    make_gloo_group(fences_folder.path(), rank, kRanks, gloo_test_options()));
    const auto beside_elements = [&](const Sizes& sizes) -> Result<std::int64_t> {
      SHARDKIT_TRY(fence->barrier());
      const std::int64_t before = received_bytes(sockets);
      SHARDKIT_TRY(fence->barrier());
      SHARDKIT_TRY(operation.run(*group, sizes));
      SHARDKIT_TRY(fence->barrier());
      return received_bytes(sockets) - before - operation.elements(rank, sizes);
    };
    SHARDKIT_ASSIGN(const auto few_rows, beside_elements({3, 64}));
    SHARDKIT_ASSIGN(const auto many_rows, beside_elements({3, 4096}));
    SHARDKIT_ASSIGN(const auto many_tensors, beside_elements({60, 64}));
    const std::string found = "; beside the elements there were " + std::to_string(few_rows) +
                              ", " + std::to_string(many_rows) + " and " +
                              std::to_string(many_tensors) + " bytes";
    SHARDKIT_TRY(expect(few_rows >= 0 && many_rows == few_rows, "each element once" + found));
    return expect(few_rows <= allowance(3) && many_tensors <= allowance(60),
                  "no more than is allowed" + found);
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

std::int64_t whole_bytes(const Sizes& sizes) { return sizes.tensors * sizes.rows * kRowBytes; }

TEST(WireBytes, BroadcastOfRowsSendsEachRankItsOwn) {
  expect_bytes_that_must_move(
      {[](ProcessGroup& group, const Sizes& sizes) -> Status {
         Dict local = local_state(sizes, group.rank(), Shard{0});
         return broadcast_state_dict(group.rank() == 0 ? full_state(sizes) : Dict(), local, group);
       },
       [](int rank, const Sizes& sizes) { return rank == 0 ? 0 : whole_bytes(sizes) / kRanks; }});
}

TEST(WireBytes, BroadcastOfReplicasSendsEachRankTheWhole) {
  expect_bytes_that_must_move(
      {[](ProcessGroup& group, const Sizes& sizes) -> Status {
         Dict local = local_state(sizes, group.rank(), Replicate{});
         return broadcast_state_dict(group.rank() == 0 ? full_state(sizes) : Dict(), local, group);
       },
       [](int rank, const Sizes& sizes) { return rank == 0 ? 0 : whole_bytes(sizes); }});
}

TEST(WireBytes, DistributeSendsNoElements) {
  expect_bytes_that_must_move({[](ProcessGroup& group, const Sizes& sizes) -> Status {
                                 Dict local = local_state(sizes, group.rank(), Shard{1});
                                 return distribute_state_dict(full_state(sizes), local, group);
                               },
                               [](int, const Sizes&) { return std::int64_t{0}; }});
}

std::function<Status(ProcessGroup&, const Sizes&)> gather(Placement placement,
                                                          std::vector<int> ranks_only) {
  return [placement, ranks_only](ProcessGroup& group, const Sizes& sizes) -> Status {
    GatherOptions options;
    options.ranks_only = ranks_only;
    SHARDKIT_TRY(gather_state_dict(local_state(sizes, group.rank(), placement), group, options));
    return {};
  };
}

TEST(WireBytes, GatherBringsEachRankWhatItLacks) {
  for (const Placement& placement : {Placement(Shard{0}), Placement(Shard{1})})
    expect_bytes_that_must_move({gather(placement, {}), [](int, const Sizes& sizes) {
                                   return whole_bytes(sizes) / kRanks * (kRanks - 1);
                                 }});
}

TEST(WireBytes, GatherToOneRankBringsTheOthersNothing) {
  expect_bytes_that_must_move({gather(Shard{0}, {2}), [](int rank, const Sizes& sizes) {
                                 return rank == 2 ? whole_bytes(sizes) / kRanks * (kRanks - 1) : 0;
                               }});
}

TEST(WireBytes, GatherOfReplicasSendsNoElements) {
  expect_bytes_that_must_move(
      {gather(Replicate{}, {}), [](int, const Sizes&) { return std::int64_t{0}; }});
}

}  // namespace
}  // namespace shardkit
