// Conformance of process groups: what fails, fails on all ranks, in time, and names the culprit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "shardkit/collective/conformance_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::testing {
namespace {

using std::chrono::milliseconds;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

/// What a rank saw, told where only a Status goes: an error if it is not what it should be.
Status expect_failure(const Status& status, ErrorCode code, const std::string& text) {
  if (status.ok()) return expect(false, "a failure, not success");
  if (status.error().code() == code && status.error().message().find(text) != std::string::npos) {
    testing::record_expected(status.error());
    return {};
  }
  return expect(false, "a failure with '" + text + "', not " + status.error().message());
}

Status expect_unusable(ProcessGroup& group, ErrorCode code) {
  return expect_failure(group.barrier(), code, "unusable");
}

std::string rank_name(int rank) { return "rank " + std::to_string(rank); }

struct Case {
  std::string name;
  /// Puts what it is to fill into `buffers`.
  std::function<Status(ProcessGroup& group, Buffers& buffers, std::size_t bytes)> call;
};

Buffers rooms(int count, std::size_t bytes) {
  Buffers buffers;
  for (int i = 0; i < count; ++i) buffers.add_room(bytes);
  return buffers;
}

// Every function with `bytes` that should be the same on all ranks.
std::vector<Case> sized_calls() {
  return {
      {"broadcast",
       [](ProcessGroup& group, Buffers& buffers, std::size_t bytes) {
         buffers = rooms(1, bytes);
         return group.broadcast(buffers.data[0], 0);
       }},
      {"all_gather",
       [](ProcessGroup& group, Buffers& buffers, std::size_t bytes) {
         buffers = rooms(group.size(), bytes);
         return group.all_gather(message(0, 0, bytes), buffers.writable());
       }},
      {"gather",
       [](ProcessGroup& group, Buffers& buffers, std::size_t bytes) {
         buffers = rooms(group.rank() == 0 ? group.size() : 0, bytes);
         return group.gather(message(0, 0, bytes), buffers.writable(), 0);
       }},
      {"scatter",
       [](ProcessGroup& group, Buffers& buffers, std::size_t bytes) {
         const Buffers all = rooms(group.rank() == 0 ? group.size() : 0, bytes);
         buffers = rooms(1, bytes);
         return group.scatter(all.readable(), buffers.data[0], 0);
       }},
      {"all_to_all",
       [](ProcessGroup& group, Buffers& buffers, std::size_t bytes) {
         const Buffers send = rooms(group.size(), bytes);
         buffers = rooms(group.size(), bytes);
         return group.all_to_all(send.readable(), buffers.writable());
       }},
      {"all_reduce",
       [](ProcessGroup& group, Buffers& buffers, std::size_t bytes) {
         buffers = rooms(1, bytes);
         return group.all_reduce(Accumulation::kSum, DType::kUInt8, buffers.data[0]);
       }},
  };
}

TEST_P(CollectiveFailures, OtherSizes) {
  for (const Case& each : sized_calls())
    for (const std::size_t other : {0u, 7u, 9u, 100000u}) {
      SCOPED_TRACE(each.name + " of 8 bytes, on rank 1 of " + std::to_string(other));
      expect_all_ok([&](ProcessGroup& group) -> Status {
        Buffers buffers;
        const Status status = each.call(group, buffers, group.rank() == 1 ? other : 8);
        SHARDKIT_TRY(expect_failure(status, kInvalid, each.name));
        SHARDKIT_TRY(expect_failure(status, kInvalid, "rank 1"));
        for (const auto& buffer : buffers.data)
          SHARDKIT_TRY(expect(untouched(buffer), "nothing has been written"));
        return expect_unusable(group, kInvalid);
      });
    }
}

TEST_P(CollectiveFailures, OtherOrder) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    std::vector<std::byte> buffer(8);
    const Status status = group.rank() == 1
                              ? group.barrier()
                              : group.all_reduce(Accumulation::kSum, DType::kInt32, buffer);
    SHARDKIT_TRY(expect_failure(status, kInvalid, "rank 0 called all_reduce"));
    SHARDKIT_TRY(expect_failure(status, kInvalid, "rank 1 called barrier"));
    return expect_unusable(group, kInvalid);
  });
}

TEST_P(CollectiveFailures, OtherRoot) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    std::vector<std::byte> buffer(8);
    const Status status = group.broadcast(buffer, group.rank() == 1 ? 1 : 0);
    SHARDKIT_TRY(expect_failure(status, kInvalid, "rank 1 called broadcast with root 1"));
    return expect_unusable(group, kInvalid);
  });
}

TEST_P(CollectiveFailures, OtherReduction) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    std::vector<std::byte> buffer(8);
    const Status status = group.all_reduce(
        Accumulation::kSum, group.rank() == 1 ? DType::kFloat64 : DType::kInt64, buffer);
    SHARDKIT_TRY(expect_failure(status, kInvalid, "float64"));
    return expect_unusable(group, kInvalid);
  });
  expect_all_ok([](ProcessGroup& group) -> Status {
    std::vector<std::byte> buffer(8);
    const Status status = group.all_reduce(
        group.rank() == 1 ? Accumulation::kMax : Accumulation::kMin, DType::kInt64, buffer);
    return expect_failure(status, kInvalid, "rank 1 called all_reduce(max)");
  });
}

// Of one rank alone: the others learn of it, though they have done nothing wrong.
TEST_P(CollectiveFailures, WrongInItself) {
  const std::vector<std::pair<std::string, RankFn>> wrong_calls = {
      {"root 99", [](ProcessGroup& g) { return g.broadcast({}, 99); }},
      {"root -1", [](ProcessGroup& g) { return g.gather({}, {}, -1); }},
      {"1 parts", [](ProcessGroup& g) { return g.scatter(rooms(1, 1).readable(), {}, 0); }},
      {"0 parts",
       [](ProcessGroup& g) { return g.all_gather({}, std::span<const ProcessGroup::Writable>()); }},
      {"7 bytes cannot hold",
       [](ProcessGroup& g) {
         return g.all_gather(rooms(1, 8).data[0], std::span<std::byte>(rooms(1, 7).data[0]));
       }},
      {"0 and 0 parts", [](ProcessGroup& g) { return g.all_to_all({}, {}); }},
      {"7 bytes are no whole number of float32 elements",
       [](ProcessGroup& g) {
         return g.all_reduce(Accumulation::kSum, DType::kFloat32, rooms(1, 7).data[0]);
       }},
      {"is no subgroup of",
       [](ProcessGroup& g) -> Status {
         SHARDKIT_TRY(g.split(std::vector<int>{0, 99}));
         return {};
       }},
      {"is no subgroup of",
       [](ProcessGroup& g) -> Status {
         SHARDKIT_TRY(g.split(std::vector<int>{0}));  // without the caller
         return {};
       }},
      {"is no subgroup of",
       [](ProcessGroup& g) -> Status {
         SHARDKIT_TRY(g.split(std::vector<int>{1, 1}));
         return {};
       }},
  };
  for (const auto& [text, call] : wrong_calls) {
    SCOPED_TRACE(text);
    expect_all_ok([&](ProcessGroup& group) -> Status {
      const Status status = group.rank() == 1 ? call(group) : group.barrier();
      SHARDKIT_TRY(expect_failure(status, kInvalid, "rank 1"));
      SHARDKIT_TRY(expect_failure(status, kInvalid, text));
      return expect_unusable(group, kInvalid);
    });
  }
}

TEST_P(CollectiveFailures, DTypesThatAreNotReduced) {
  for (const DType dtype : {DType::kBool, DType::kComplex64, DType::kFloat8E4M3FN})
    expect_all_ok([&](ProcessGroup& group) -> Status {
      std::vector<std::byte> buffer(8, kUntouched);
      SHARDKIT_TRY(expect_failure(group.all_reduce(Accumulation::kSum, dtype, buffer),
                                  ErrorCode::kUnsupported, std::string(torch_name(dtype))));
      SHARDKIT_TRY(expect(untouched(buffer), "nothing has been written"));
      return expect_unusable(group, ErrorCode::kUnsupported);
    });
  expect_all_ok([&](ProcessGroup& group) -> Status {
    std::vector<std::byte> buffer(8);
    return expect_failure(group.all_reduce(Accumulation::kAvg, DType::kInt32, buffer),
                          ErrorCode::kUnsupported, "int32 tensors have no average");
  });
}

TEST_P(CollectiveFailures, SubgroupsThatDisagree) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    const int rank = group.rank();
    const auto split = group.split(rank == 0 ? std::vector<int>{0, 1} : std::vector<int>{rank});
    SHARDKIT_TRY(expect(!split.ok(), "a failure"));
    SHARDKIT_TRY(expect_failure(split.error(), kInvalid,
                                "rank 0 wants the subgroup [0, 1], its rank 1 wants [1]"));
    return expect_unusable(group, kInvalid);
  });
}

TEST_P(CollectiveFailures, OneRankLate) {
  const int late = size() - 1;
  for (const bool of_the_group : {false, true}) {
    SCOPED_TRACE(of_the_group ? "the group's timeout" : "the call's timeout");
    const GroupOptions options{of_the_group ? milliseconds(500) : milliseconds(60000)};
    const auto own = of_the_group ? ProcessGroup::Timeout() : milliseconds(500);
    const auto statuses = run(
        [&](ProcessGroup& group) -> Status {
          SHARDKIT_TRY(group.barrier(milliseconds(60000)));
          if (group.rank() == late) {
            std::this_thread::sleep_for(milliseconds(1000));
            return expect_unusable(group, ErrorCode::kPeer);
          }
          std::vector<std::byte> all(8 * static_cast<std::size_t>(group.size()), kUntouched);
          const auto start = std::chrono::steady_clock::now();
          const Status status = group.all_gather(message(0, 0, 8), std::span<std::byte>(all), own);
          const auto waited = std::chrono::steady_clock::now() - start;
          SHARDKIT_TRY(expect_failure(status, ErrorCode::kPeer, rank_name(late)));
          SHARDKIT_TRY(expect(waited < milliseconds(20000), "an answer soon after 0.5 s"));
          SHARDKIT_TRY(expect(untouched(all), "nothing has been written"));
          return expect_unusable(group, ErrorCode::kPeer);
        },
        options);
    for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
  }
}

TEST_P(CollectiveFailures, OneRankGone) {
  for (const int delay : {0, 100}) {  // gone when the others come; while they wait
    const auto statuses = run([&](ProcessGroup& group) -> Status {
      SHARDKIT_TRY(group.barrier());
      if (group.rank() == 0) {
        std::this_thread::sleep_for(milliseconds(delay));
        return {};
      }
      if (delay == 0) std::this_thread::sleep_for(milliseconds(100));
      std::vector<std::byte> buffer(8, kUntouched);
      const auto start = std::chrono::steady_clock::now();
      const Status status = group.broadcast(buffer, group.size() - 1);
      const auto waited = std::chrono::steady_clock::now() - start;
      SHARDKIT_TRY(expect_failure(status, ErrorCode::kPeer, rank_name(0)));
      SHARDKIT_TRY(expect(waited < milliseconds(30000), "an answer long before the minute"));
      SHARDKIT_TRY(expect(untouched(buffer), "nothing has been written"));
      return expect_unusable(group, ErrorCode::kPeer);
    });
    for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
  }
}

TEST_P(CollectiveFailures, OneRankReturnsAnError) {
  const int culprit = size() - 1;
  const auto statuses = run([&](ProcessGroup& group) -> Status {
    SHARDKIT_TRY(group.barrier());
    if (group.rank() == culprit) return Error(ErrorCode::kIo, "the disk is full");
    return group.barrier();
  });
  for (int i = 0; i < size(); ++i)
    if (i == culprit)
      EXPECT_THAT(statuses[static_cast<std::size_t>(i)], Fails(ErrorCode::kIo, "the disk is full"));
    else
      EXPECT_THAT(statuses[static_cast<std::size_t>(i)],
                  Fails(ErrorCode::kPeer, rank_name(culprit)));
}

TEST_P(CollectiveFailures, GoneAfterTheLastCallIsNoError) {
  // Whoever is first out of the last call is gone while the others are still leaving it.
  for (int i = 0; i < 50; ++i)
    expect_all_ok([](ProcessGroup& group) -> Status { return group.barrier(); });
}

TEST_P(CollectiveFailures, ASubgroupFailsAlone) {
  expect_all_ok([](ProcessGroup& group) -> Status {
    const int rank = group.rank();
    const bool inside = rank < 2;
    SHARDKIT_ASSIGN(auto pair, group.split(inside ? std::vector<int>{1, 0} : std::vector<int>()));
    if (inside) {
      std::vector<std::byte> buffer(static_cast<std::size_t>(rank) + 1);
      // The pair counts backwards: its rank 0 is rank 1 here.
      SHARDKIT_TRY(expect_failure(pair->broadcast(buffer, 0), kInvalid,
                                  "rank 0 has 2 bytes for rank 1, which expects 1"));
      SHARDKIT_TRY(expect_unusable(*pair, kInvalid));
    }
    SHARDKIT_TRY(group.barrier());
    SHARDKIT_ASSIGN(auto again, group.split(0, rank));
    return again->barrier();
  });
}

TEST_P(CollectiveFailures, ASubgroupOutlivesItsGroup) {
  const auto statuses = run([&](ProcessGroup& group) -> Status {
    SHARDKIT_ASSIGN(auto same, group.split(0, group.rank()));
    if (group.rank() == 0) SHARDKIT_TRY(expect(!group.broadcast({}, 99).ok(), "a failure"));
    SHARDKIT_TRY(same->barrier());
    SHARDKIT_TRY(expect_unusable(group, kInvalid));
    return same->barrier();
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

}  // namespace
}  // namespace shardkit::testing
