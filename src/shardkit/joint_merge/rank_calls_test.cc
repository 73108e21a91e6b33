#include "shardkit/joint_merge/rank_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/collective/thread_group.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/no_threads.h"
#include "shardkit/testing/ranks.h"

namespace shardkit {
namespace {

using testing::expect_all_fail;
using testing::expect_all_ok;
using testing::Fails;
using testing::IsOk;

Status expect(bool holds, const std::string& what) {
  return holds ? Status() : Status(Error(ErrorCode::kInternal, "expected: " + what));
}

std::string text_of(const Result<std::string>& answer) {
  return answer.ok() ? *answer : "no answer: " + answer.error().message();
}

TEST(RankCalls, AThreadThatTheSystemRefusesIsAnErrorOnAllRanks) {
  expect_all_fail(
      2,
      [](ProcessGroup& group) -> Status {
        RankCalls calls(group,
                        [](std::string_view) -> Result<std::string> { return std::string(); });
        SHARDKIT_TRY(group.barrier());
        std::optional<testing::NoThreads> no_threads;
        if (group.rank() == 1) no_threads.emplace();
        SHARDKIT_TRY(group.barrier());
        const Status status = calls.run([]() -> Status { return {}; });
        SHARDKIT_TRY(group.barrier());
        return status;
      },
      ErrorCode::kLimit, "rank 0: the system starts no thread to work in the background");
}

TEST(RankCalls, EveryThreadOfEveryRankGetsItsOwnAnswers) {
  expect_all_ok(3, [](ProcessGroup& group) -> Status {
    RankCalls calls(group, [&group](std::string_view question) -> Result<std::string> {
      return std::to_string(group.rank()) + " says " + std::string(question);
    });
    const auto work = [&]() -> Status {
      std::atomic<int> wrong = 0;
      {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
          threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i) {
              const int other = (group.rank() + 1 + (t + i) % 2) % 3;
              const std::string question = std::to_string(t * 100 + i);
              if (text_of(calls.ask(other, question)) !=
                  std::to_string(other) + " says " + question)
                ++wrong;
            }
          });
      }
      SHARDKIT_TRY(expect(wrong == 0, "the answers to the questions"));
      const auto all = calls.ask_others("you");
      for (int rank = 0; rank < 3; ++rank)
        if (rank != group.rank())
          SHARDKIT_TRY(expect(
              text_of(all[static_cast<std::size_t>(rank)]) == std::to_string(rank) + " says you",
              "an answer of each"));
      return {};
    };
    return calls.run(work);
  });
}

/// More than a rank holds at a time: what is put off comes in later rounds.
TEST(RankCalls, LargeAnswersComeInSeveralRounds) {
  constexpr std::size_t kLarge = 24 << 20;
  expect_all_ok(3, [](ProcessGroup& group) -> Status {
    RankCalls calls(group, [](std::string_view question) -> Result<std::string> {
      return std::string(kLarge, question.front());
    });
    const auto work = [&]() -> Status {
      if (group.rank() == 0) return {};
      std::atomic<int> wrong = 0;
      {
        std::vector<std::jthread> threads;
        for (char c = 'a'; c < 'e'; ++c)
          threads.emplace_back([&, c] {
            if (text_of(calls.ask(0, std::string(1, c))) != std::string(kLarge, c)) ++wrong;
          });
      }
      return expect(wrong == 0, "whole answers");
    };
    return calls.run(work);
  });
}

TEST(RankCalls, AnErrorIsAnAnswerThatNamesItsRank) {
  expect_all_ok(2, [](ProcessGroup& group) -> Status {
    RankCalls calls(group, [](std::string_view) -> Result<std::string> {
      return Error(ErrorCode::kNotFound, "not here");
    });
    const auto work = [&]() -> Status {
      const int other = 1 - group.rank();
      const auto answer = calls.ask(other, "x");
      return expect(
          !answer.ok() && answer.error().code() == ErrorCode::kNotFound &&
              answer.error().message() == "not here (on rank " + std::to_string(other) + ")",
          "the other's error");
    };
    return calls.run(work);
  });
}

TEST(RankCalls, WorkThatFailsOnOneRankEndsTheStepOnAll) {
  expect_all_fail(
      3,
      [](ProcessGroup& group) {
        RankCalls calls(group, [](std::string_view) { return std::string(); });
        const auto work = [&]() -> Status {
          if (group.rank() == 1) return Error(ErrorCode::kIo, "it is broken");
          while (!calls.is_stopped() || calls.check_goes_on().ok())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_THAT(calls.check_goes_on(), Fails(ErrorCode::kIo, "rank 1: it is broken"));
          // Nobody answers any more, and nobody waits for it.
          return expect(!calls.ask((group.rank() + 1) % 3, "x").ok(), "no answer");
        };
        return calls.run(work);
      },
      ErrorCode::kIo, "rank 1: it is broken");
}

TEST(RankCalls, WhoWaitsForARankThatIsGoneIsTold) {
  const auto statuses =
      run_ranks(2,
                [](ProcessGroup& group) -> Status {
                  if (group.rank() == 1) return {};
                  RankCalls calls(group, [](std::string_view) { return std::string(); });
                  return calls.run([&]() -> Status {
                    const auto answer = calls.ask(1, "x");
                    return answer.ok() ? Status() : Status(answer.error());
                  });
                },
                {std::chrono::seconds(30)});
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kPeer, "rank 1"));
}

/// Rank 1 plays its part by hand: in each round it has done its work, and asks nothing.
TEST(RankCalls, AnAnswerThatIsTooLargeIsNotTaken) {
  const auto be_rank_1 = [](ProcessGroup& group) -> Status {
    for (std::int64_t questions = 0; questions == 0;) {
      MessageWriter out;
      out.put(std::int64_t{1});
      out.put("");
      out.put(std::int64_t{0});
      SHARDKIT_ASSIGN(const auto messages, exchange_messages(group, std::move(out).take()));
      MessageReader in(messages[0]);
      SHARDKIT_TRY(in.number());
      SHARDKIT_TRY(in.text());
      SHARDKIT_ASSIGN(questions, in.number());
    }
    const std::int64_t bytes = (std::int64_t{1} << 30) + 1;
    std::vector<std::int64_t> others(2);
    const std::vector<std::span<const std::byte>> send(2, std::as_bytes(std::span(&bytes, 1)));
    std::vector<std::span<std::byte>> receive;
    for (std::int64_t& each : others)
      receive.push_back(std::as_writable_bytes(std::span(&each, 1)));
    return group.all_to_all(send, receive);
  };
  const auto statuses = run_ranks(2, [&](ProcessGroup& group) -> Status {
    if (group.rank() == 1) return be_rank_1(group);
    RankCalls calls(group, [](std::string_view) { return std::string(); });
    return calls.run([&]() -> Status {
      SHARDKIT_TRY(calls.ask(1, "x"));
      return {};
    });
  });
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kPeer,
                                 "rank 1 has an answer that is too large: expected at most "
                                 "1073741824 bytes, found 1073741825"));
  EXPECT_THAT(statuses[1], IsOk());
}

TEST(RankCalls, NotesReachAllUpToTheEndOfTheWork) {
  expect_all_ok(3, [](ProcessGroup& group) -> Status {
    RankCalls calls(group, [](std::string_view) { return std::string(); });
    std::atomic<int> count = 0;
    std::vector<std::string> last(3);
    RankCalls::Notes notes;
    notes.tell = [&count] { return std::to_string(count); };
    notes.hear = [&last](int from, std::string_view note) -> Status {
      last[static_cast<std::size_t>(from)] = note;
      return {};
    };
    SHARDKIT_TRY(calls.run(
        [&]() -> Status {
          for (int i = 0; i < 50 + group.rank(); ++i) ++count;
          return {};
        },
        notes));
    return expect(last == std::vector<std::string>{"50", "51", "52"}, "the last notes");
  });
}

TEST(RankCalls, ANoteThatCannotBeHeardFailsOnAllEvenTheLast) {
  expect_all_fail(
      2,
      [](ProcessGroup& group) {
        RankCalls calls(group, [](std::string_view) { return std::string(); });
        RankCalls::Notes notes;
        notes.tell = [] { return std::string("x"); };
        notes.hear = [&group](int, std::string_view) {
          return group.rank() == 0 ? Status(Error(ErrorCode::kIo, "no room")) : Status();
        };
        return calls.run([] { return Status(); }, notes);
      },
      ErrorCode::kIo, "rank 0: no room");
}

TEST(RankCalls, NobodyIsAskedOutsideOfAStep) {
  auto groups = make_thread_groups(1);
  RankCalls calls(*groups[0], [](std::string_view) { return std::string(); });
  EXPECT_THAT(calls.ask(0, "x"), Fails(ErrorCode::kInternal, "outside of a step"));
}

}  // namespace
}  // namespace shardkit
