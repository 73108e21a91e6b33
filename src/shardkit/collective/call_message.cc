// Shapes of calls as numbers; what comes from another rank is checked before it is an index.
#include <algorithm>

#include "shardkit/collective/call_message_internal.h"
#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

constexpr std::size_t kNumberBytes = 8;
constexpr std::size_t kPlainNumbers = 5;  // op, root, accumulation, dtype, size of the buffer
constexpr std::size_t kLists = 3;

Error not_a_call(std::string_view what, std::int64_t found) {
  return Error(ErrorCode::kPeer,
               "another rank's message is no collective call: " + std::string(what))
      .found(std::to_string(found));
}

// By rank, or empty.
Result<std::vector<std::uint64_t>> read_sizes(MessageReader& in, int size) {
  SHARDKIT_ASSIGN(const std::size_t count, in.count());
  if (count != 0 && count != static_cast<std::size_t>(size))
    return not_a_call("sizes for another number of ranks", static_cast<std::int64_t>(count));
  std::vector<std::uint64_t> sizes(count);
  for (std::uint64_t& each : sizes) {
    SHARDKIT_ASSIGN(const std::int64_t bytes, in.number());
    if (bytes < 0) return not_a_call("a negative size", bytes);
    each = static_cast<std::uint64_t>(bytes);
  }
  return sizes;
}

}  // namespace

std::size_t longest_shape_bytes(int size) {
  return kNumberBytes * (kPlainNumbers + kLists * (1 + static_cast<std::size_t>(size)));
}

std::string encode_shape(const CallShape& shape) {
  MessageWriter out;
  out.put(static_cast<std::int64_t>(shape.op));
  out.put(static_cast<std::int64_t>(shape.root));
  out.put(static_cast<std::int64_t>(shape.accumulation));
  out.put(static_cast<std::int64_t>(shape.dtype));
  out.put(static_cast<std::int64_t>(shape.buffer_bytes));
  for (const auto* sizes : {&shape.sent_bytes, &shape.received_bytes}) {
    out.put(static_cast<std::int64_t>(sizes->size()));
    for (const std::uint64_t each : *sizes) out.put(static_cast<std::int64_t>(each));
  }
  out.put(static_cast<std::int64_t>(shape.ranks.size()));
  for (const int rank : shape.ranks) out.put(static_cast<std::int64_t>(rank));
  return std::move(out).take();
}

Result<DecodedShape> decode_shape(std::string_view bytes, int size) {
  MessageReader in(bytes);
  CallShape shape;
  SHARDKIT_ASSIGN(const auto op, in.number_up_to(static_cast<std::int64_t>(CollectiveOp::kSplit)));
  SHARDKIT_ASSIGN(const auto root, in.number());
  if (root < -1 || root >= size) return not_a_call("its root is no rank", root);
  SHARDKIT_ASSIGN(const auto accumulation,
                  in.number_up_to(static_cast<std::int64_t>(Accumulation::kProduct)));
  SHARDKIT_ASSIGN(const auto dtype, in.number_up_to(kDTypeCount - 1));
  SHARDKIT_ASSIGN(const auto buffer_bytes, in.number());
  if (buffer_bytes < 0) return not_a_call("a negative size", buffer_bytes);
  shape.op = static_cast<CollectiveOp>(op);
  shape.root = static_cast<int>(root);
  shape.accumulation = static_cast<Accumulation>(accumulation);
  shape.dtype = static_cast<DType>(dtype);
  shape.buffer_bytes = static_cast<std::uint64_t>(buffer_bytes);
  SHARDKIT_ASSIGN(shape.sent_bytes, read_sizes(in, size));
  SHARDKIT_ASSIGN(shape.received_bytes, read_sizes(in, size));
  SHARDKIT_ASSIGN(const auto ranks, in.number_up_to(size));
  for (std::int64_t i = 0; i < ranks; ++i) {
    SHARDKIT_ASSIGN(const auto rank, in.number_up_to(size - 1));
    shape.ranks.push_back(static_cast<int>(rank));
  }
  const std::size_t numbers = kPlainNumbers + kLists + shape.sent_bytes.size() +
                              shape.received_bytes.size() + shape.ranks.size();
  return DecodedShape{std::move(shape), numbers * kNumberBytes};
}

}  // namespace shardkit
