// Ranks that agree, ranks that fail, ranks that are late or gone.
#include "shardkit/collective/agreement.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "shardkit/collective/thread_group.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(Agreement, AllGetAllMessages) {
  const auto statuses = run_ranks(3, [](ProcessGroup& group) -> Status {
    const std::string mine(static_cast<std::size_t>(group.rank()), 'x');
    SHARDKIT_ASSIGN(const auto messages, exchange_messages(group, mine));
    EXPECT_EQ(messages, (std::vector<std::string>{"", "x", "xx"}));
    return agree_on_status(group, {});
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(Agreement, TheErrorOfTheLowestRankIsEverybodysWithAllItsParts) {
  const auto statuses = run_ranks(4, [](ProcessGroup& group) -> Status {
    Status mine;
    if (group.rank() == 1)
      mine = Error(ErrorCode::kCorrupt, "no good")
                 .in_file("f.pt")
                 .at_offset(7)
                 .of_tensor("w")
                 .expected("this")
                 .found("that")
                 .from_system(5)
                 .with_detail(CompanionMismatch{"a.b"});
    if (group.rank() == 2) mine = Error(ErrorCode::kIo, "another");
    return agree_on_status(group, mine);
  });
  for (const Status& status : statuses) {
    EXPECT_THAT(status, Fails(ErrorCode::kCorrupt,
                              "rank 1: no good: tensor 'w', expected this, found that, file 'f.pt',"
                              " offset 7"));
    EXPECT_EQ(status.error().system_number(), 5);
    ASSERT_TRUE(status.error().companion_mismatch());
    EXPECT_EQ(status.error().companion_mismatch()->path, "a.b");
  }
}

TEST(Agreement, TheGroupLivesOnAfterADisagreement) {
  const auto statuses = run_ranks(2, [](ProcessGroup& group) -> Status {
    Status mine;
    if (group.rank() == 0) mine = Error(ErrorCode::kLimit, "no memory");
    EXPECT_THAT(agree_on_status(group, mine), Fails(ErrorCode::kLimit, "rank 0: no memory"));
    return agree_on_status(group, {});
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(Agreement, ARankThatIsGoneOrLateIsAnError) {
  const auto gone = run_ranks(3, [](ProcessGroup& group) -> Status {
    if (group.rank() == 2) return {};
    return agree_on_status(group, {});
  });
  EXPECT_THAT(gone[0], Fails(ErrorCode::kPeer, "rank 2 left"));
  EXPECT_THAT(gone[1], Fails(ErrorCode::kPeer, "rank 2 left"));
  const auto late = run_ranks(2,
                              [](ProcessGroup& group) -> Status {
                                if (group.rank() == 1)
                                  std::this_thread::sleep_for(std::chrono::milliseconds(300));
                                return agree_on_status(group, {});
                              },
                              {std::chrono::milliseconds(50)});
  EXPECT_THAT(late[0], Fails(ErrorCode::kPeer, "rank 1 had not come"));
  EXPECT_THAT(late[1], Fails(ErrorCode::kPeer, ""));
}

}  // namespace
}  // namespace shardkit
