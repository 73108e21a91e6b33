// Thread groups: the conformance suites, and what only threads can get wrong.
#include "shardkit/collective/thread_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include "shardkit/collective/conformance_test_util.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/no_threads.h"

namespace shardkit::testing {

const CollectiveBackend kThreads{"threads",
                                 [](int size, const RankFn& fn, const GroupOptions& options) {
                                   return run_ranks(size, fn, options);
                                 }};
SHARDKIT_INSTANTIATE_COLLECTIVE_SUITES(Threads, kThreads);

namespace {

using std::chrono::milliseconds;

TEST(ThreadGroup, AnExceptionStaysWithItsRank) {
  const auto statuses = run_ranks(3, [](ProcessGroup& group) -> Status {
    if (group.rank() == 1) throw std::runtime_error("out of luck");
    if (group.rank() == 2) throw 7;
    return group.barrier();
  });
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kPeer, "barrier: rank"));
  EXPECT_THAT(statuses[1], Fails(ErrorCode::kInternal, "rank 1 threw: out of luck"));
  EXPECT_THAT(statuses[2], Fails(ErrorCode::kInternal, "rank 2 threw"));
}

TEST(ThreadGroup, WhereNoThreadCanBeStarted) {
  const NoThreads no_threads;
  const auto statuses = run_ranks(2, [](ProcessGroup& group) { return group.barrier(); });
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kLimit, "no thread can be started for rank 0: "));
  EXPECT_THAT(statuses[1], Fails(ErrorCode::kLimit, "no thread can be started for rank 1: "));
}

TEST(ThreadGroup, EndsMayBeTakenByAnyThread) {
  auto groups = make_thread_groups(2);
  std::vector<std::byte> received(3);
  {
    std::jthread other([&received, group = std::move(groups[1])] {
      EXPECT_THAT(group->broadcast(received, 0), IsOk());
    });
    auto sent = message(0, 0, 3);
    EXPECT_THAT(groups[0]->broadcast(sent, 0), IsOk());
  }
  EXPECT_EQ(received, message(0, 0, 3));
}

TEST(ThreadGroup, AGroupOfOneNeedsNobody) {
  auto groups = make_thread_groups(1);
  std::vector<std::byte> buffer = message(0, 0, 3);
  EXPECT_THAT(groups[0]->broadcast(buffer, 0, milliseconds(0)), IsOk());
  EXPECT_EQ(buffer, message(0, 0, 3));
}

// There is nobody to wait for, and a few MiB are copied before the first look at the clock.
TEST(ThreadGroup, AGroupOfOneNeedsNoTimeForAFewMiB) {
  auto groups = make_thread_groups(1);
  const std::vector<std::byte> sent = message(0, 0, 4 << 20);
  std::vector<std::byte> received(sent.size());
  EXPECT_THAT(groups[0]->all_gather(sent, std::span<std::byte>(received), milliseconds(0)), IsOk());
  EXPECT_EQ(received, sent);
}

TEST(ThreadGroup, NegativeAndEndlessTimeouts) {
  auto groups = make_thread_groups(2);
  EXPECT_THAT(groups[0]->barrier(milliseconds(-5)), Fails(ErrorCode::kPeer, "rank 1 had not come"));
  const auto statuses =
      run_ranks(2, [](ProcessGroup& group) { return group.barrier(milliseconds::max()); });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(ThreadGroup, AllWhoAreLateOrGoneAreNamed) {
  auto late = make_thread_groups(4);
  EXPECT_THAT(late[2]->barrier(milliseconds(0)),
              Fails(ErrorCode::kPeer, "ranks 0, 1, 3 had not come"));
  auto gone = make_thread_groups(4);
  gone[1].reset();
  gone[3].reset();
  EXPECT_THAT(gone[2]->barrier(), Fails(ErrorCode::kPeer, "ranks 1, 3 left the group"));
}

TEST(ThreadGroup, ASubgroupNamesTheRanksOfTheOutermostGroup) {
  const auto statuses = run_ranks(4, [](ProcessGroup& group) -> Status {
    SHARDKIT_ASSIGN(auto upper, group.split(group.rank() / 2, 0));
    SHARDKIT_ASSIGN(auto backwards, upper->split(0, -upper->rank()));
    if (group.rank() == 3) return {};
    if (group.rank() == 2) return backwards->barrier();
    return {};
  });
  EXPECT_THAT(statuses[2], Fails(ErrorCode::kPeer, "rank 0 left the group"));
  EXPECT_THAT(statuses[2], Fails(ErrorCode::kPeer, "[3, 2]"));
}

// A call ends at its deadline also in the middle of a copy: the rest is left as it was. Then nobody
// touches the buffers any more: they are freed at once, which a sanitizer would notice. A rank's
// share is 24 MiB, of which no machine copies the end within a millisecond.
TEST(ThreadGroup, TheDeadlinePassesDuringACopy) {
  for (const bool reduce : {false, true}) {
    const auto statuses = run_ranks(4, [&](ProcessGroup& group) -> Status {
      const std::byte before{static_cast<unsigned char>(group.rank() + 1)};
      std::vector<std::byte> buffer(96 << 20, before);
      SHARDKIT_TRY(group.barrier());
      const Status status =
          reduce ? group.all_reduce(Accumulation::kSum, DType::kInt8, buffer, milliseconds(1))
                 : group.broadcast(buffer, 0, milliseconds(1));
      SHARDKIT_TRY(expect(buffer.back() == before, "the end is never reached"));
      return status;
    });
    for (const Status& status : statuses) EXPECT_THAT(status, Fails(ErrorCode::kPeer, "had not"));
  }
}

// The same where each of the messages is too small to be shared by ranks.
TEST(ThreadGroup, TheDeadlinePassesAmongManySmallCopies) {
  constexpr int kRanks = 48;
  constexpr std::size_t kBytes = (2 << 20) - 1;
  const std::vector<std::byte> sent(kBytes, std::byte{1});
  std::vector<std::byte> gathered(kRanks * kBytes);
  const auto statuses = run_ranks(kRanks, [&](ProcessGroup& group) -> Status {
    std::vector<std::span<std::byte>> parts;
    for (std::size_t i = 0; i < kRanks && group.rank() == 0; ++i)
      parts.push_back(std::span(gathered).subspan(i * kBytes, kBytes));
    SHARDKIT_TRY(group.barrier());
    return group.gather(sent, parts, 0, milliseconds(1));
  });
  for (const Status& status : statuses) EXPECT_THAT(status, Fails(ErrorCode::kPeer, "had not"));
  EXPECT_EQ(gathered.back(), std::byte{0}) << "the end is never reached";
}

// Rank 0 has nothing to do and little time; it gives up while rank 1 copies, in one go, what it has
// all the time for. That copy is done in the end, but the call has failed.
TEST(ThreadGroup, WhoFinishesTooLateForAnotherFailsToo) {
  constexpr std::size_t kBytes = 8 << 20;
  int failed = 0;
  for (int i = 0; i < 200 && failed < 5; ++i) {
    const std::vector<std::byte> sent(kBytes, std::byte{1});
    std::array<bool, 2> ok{};
    const auto statuses = run_ranks(2, [&](ProcessGroup& group) -> Status {
      SHARDKIT_TRY(group.barrier());
      if (group.rank() == 0) {
        std::this_thread::sleep_for(milliseconds(5));
        ok[0] = group.gather(sent, {}, 1, milliseconds(1)).ok();
        return {};
      }
      // Fresh pages make the copy slow.
      const auto room = std::make_unique_for_overwrite<std::byte[]>(kBytes);
      const std::vector<std::span<std::byte>> parts{{room.get(), kBytes}, {}};
      ok[1] = group.gather({}, parts, 1).ok();
      return {};
    });
    for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
    EXPECT_EQ(ok[0], ok[1]);
    if (!ok[0]) ++failed;
  }
}

// Ranks that come about when the others' time is up: all of them succeed, or none.
TEST(ThreadGroup, AllSucceedOrNone) {
  int succeeded = 0;
  int failed = 0;
  for (int i = 0; i < 300; ++i) {
    std::atomic<int> ok = 0;
    std::atomic<int> wrong = 0;
    const auto statuses = run_ranks(4, [&](ProcessGroup& group) -> Status {
      std::vector<std::byte> all(4000);
      SHARDKIT_TRY(group.barrier());
      if (group.rank() == i % 4) std::this_thread::sleep_for(std::chrono::microseconds(i * 10));
      const auto mine = message(group.rank(), i, 1000);
      const Status status = group.all_gather(mine, std::span<std::byte>(all), milliseconds(1));
      if (!status.ok()) return {};
      ++ok;
      for (int r = 0; r < 4; ++r) {
        const auto expected = message(r, i, 1000);
        if (!std::equal(expected.begin(), expected.end(), all.begin() + r * 1000)) ++wrong;
      }
      return {};
    });
    for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(ok == 0 || ok == 4) << ok;
    ++(ok == 4 ? succeeded : failed);
  }
  // Both were seen, or this test has shown nothing.
  EXPECT_GT(failed, 0);
  RecordProperty("succeeded", succeeded);
}

}  // namespace
}  // namespace shardkit::testing
