#include <gtest/gtest.h>

#include <array>

#include "shardkit/collective/gloo/card_internal.h"
#include "shardkit/collective/message.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;

TEST(Card, AnAddressOfAnotherLengthIsNone) {
  MessageWriter out;
  out.put(std::int64_t{7});  // the host
  out.put("127.0.0.1");
  const std::array card{std::move(out).take()};
  constexpr const char* kText =
      "another rank's network address has the length of none: expected 128 bytes, found 9";
  EXPECT_THAT(door_on_card(card[0], 0), Fails(ErrorCode::kPeer, kText));
  EXPECT_THAT(check_addresses(card), Fails(ErrorCode::kPeer, kText));
}

}  // namespace
}  // namespace shardkit
