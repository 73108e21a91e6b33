// Numbers and texts to bytes and back.
#include "shardkit/collective/message.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardkit {
namespace {

constexpr std::size_t kNumberBytes = 8;

Error damaged(std::string_view what) {
  return {ErrorCode::kPeer, fmt::format("a message of another rank is damaged: {}", what)};
}

}  // namespace

void MessageWriter::put(std::int64_t number) {
  auto rest = static_cast<std::uint64_t>(number);
  for (std::size_t i = 0; i < kNumberBytes; ++i, rest >>= 8)
    bytes_.push_back(static_cast<char>(rest & 0xff));
}

void MessageWriter::put(std::string_view text) {
  put(static_cast<std::int64_t>(text.size()));
  bytes_ += text;
}

void MessageWriter::put(const Dims& dims) {
  put(static_cast<std::int64_t>(dims.size()));
  for (const std::int64_t size : dims) put(size);
}

Result<std::string_view> MessageReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) return damaged("it ends too early");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

Result<std::int64_t> MessageReader::number() {
  SHARDKIT_ASSIGN(const std::string_view bytes, take(kNumberBytes));
  std::uint64_t number = 0;
  for (std::size_t i = kNumberBytes; i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return static_cast<std::int64_t>(number);
}

Result<std::int64_t> MessageReader::number_up_to(std::int64_t limit) {
  SHARDKIT_ASSIGN(const std::int64_t value, number());
  if (value < 0 || value > limit)
    return damaged(fmt::format("{} where at most {} can be meant", value, limit));
  return value;
}

Result<std::size_t> MessageReader::count() {
  const auto limit = static_cast<std::int64_t>(rest_.size() / kNumberBytes);
  SHARDKIT_ASSIGN(const std::int64_t value, number_up_to(limit));
  return static_cast<std::size_t>(value);
}

Result<std::string> MessageReader::text() {
  SHARDKIT_ASSIGN(const std::int64_t length, number());
  SHARDKIT_ASSIGN(const std::string_view bytes, take(static_cast<std::uint64_t>(length)));
  return std::string(bytes);
}

Result<Dims> MessageReader::dims() {
  SHARDKIT_ASSIGN(const std::int64_t size, number_up_to(Dims::kMaxDims));
  Dims dims(static_cast<std::size_t>(size), 0);
  for (std::int64_t& each : dims) {
    SHARDKIT_ASSIGN(each, number());
  }
  return dims;
}

Status MessageReader::expect_end() const {
  if (!rest_.empty()) return damaged(fmt::format("{} bytes too many", rest_.size()));
  return {};
}

}  // namespace shardkit
