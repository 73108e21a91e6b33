// What another rank says it calls: bytes that are no call.
#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "shardkit/collective/call_message_internal.h"
#include "shardkit/collective/message.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

std::string message(std::initializer_list<std::int64_t> numbers) {
  MessageWriter out;
  for (const std::int64_t number : numbers) out.put(number);
  return std::move(out).take();
}

// op, root, accumulation, dtype, bytes of the buffer; then three lists: sizes by receiver, sizes by
// sender, ranks.
TEST(CallMessage, BytesOfNoCall) {
  constexpr std::int64_t kScatter = 3;
  EXPECT_THAT(decode_shape(message({kScatter, 0, 0, 0, 0, 2, 8, 8, 0, 0}), 2), IsOk());
  const std::vector<std::pair<std::string, const char*>> cases{
      {message({kScatter, 2, 0, 0, 0, 0, 0, 0}), "its root is no rank: found 2"},
      {message({kScatter, -2, 0, 0, 0, 0, 0, 0}), "its root is no rank: found -2"},
      {message({kScatter, 0, 0, 0, -4, 0, 0, 0}), "a negative size: found -4"},
      {message({kScatter, 0, 0, 0, 0, 2, 8, -8, 0, 0}), "a negative size: found -8"},
      {message({kScatter, 0, 0, 0, 0, 3, 8, 8, 8, 0, 0}),
       "sizes for another number of ranks: found 3"}};
  for (const auto& [bytes, text] : cases)
    EXPECT_THAT(decode_shape(bytes, 2),
                Fails(ErrorCode::kPeer,
                      std::string("another rank's message is no collective call: ") + text));
}

}  // namespace
}  // namespace shardkit
