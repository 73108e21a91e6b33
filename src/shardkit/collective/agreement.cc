// Messages or errors of all ranks, in two rounds: sizes, then bytes.
#include "shardkit/collective/agreement.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

constexpr std::int64_t kLastCode = static_cast<std::int64_t>(ErrorCode::kInternal);

std::string encode(const Error& error) {
  MessageWriter out;
  out.put(static_cast<std::int64_t>(error.code()));
  out.put(error.what());
  for (const auto* part :
       {&error.tensor(), &error.expected_text(), &error.found_text(), &error.file()}) {
    out.put(static_cast<std::int64_t>(part->has_value()));
    out.put(part->value_or(""));
  }
  out.put(static_cast<std::int64_t>(error.offset().has_value()));
  out.put(static_cast<std::int64_t>(error.offset().value_or(0)));
  out.put(static_cast<std::int64_t>(error.system_number().has_value()));
  out.put(static_cast<std::int64_t>(error.system_number().value_or(0)));
  out.put(static_cast<std::int64_t>(error.companion_mismatch().has_value()));
  out.put(error.companion_mismatch() ? error.companion_mismatch()->path : "");
  return std::move(out).take();
}

// The error that the rank sent, or that its message is damaged.
Status decode(int rank, std::string_view bytes) {
  MessageReader in(bytes);
  SHARDKIT_ASSIGN(const std::int64_t code, in.number_up_to(kLastCode));
  SHARDKIT_ASSIGN(const std::string what, in.text());
  Error error(static_cast<ErrorCode>(code), fmt::format("rank {}: {}", rank, what));
  using Add = Error && (Error::*)(std::string_view)&&;
  for (const Add add : {&Error::of_tensor, &Error::expected, &Error::found, &Error::in_file}) {
    SHARDKIT_ASSIGN(const std::int64_t given, in.number_up_to(1));
    SHARDKIT_ASSIGN(const std::string part, in.text());
    if (given) (std::move(error).*add)(part);
  }
  SHARDKIT_ASSIGN(const std::int64_t has_offset, in.number_up_to(1));
  SHARDKIT_ASSIGN(const std::int64_t offset, in.number());
  if (has_offset) std::move(error).at_offset(static_cast<std::uint64_t>(offset));
  SHARDKIT_ASSIGN(const std::int64_t has_number, in.number_up_to(1));
  SHARDKIT_ASSIGN(const std::int64_t number, in.number());
  if (has_number) std::move(error).from_system(static_cast<int>(number));
  SHARDKIT_ASSIGN(const std::int64_t mismatch, in.number_up_to(1));
  SHARDKIT_ASSIGN(std::string path, in.text());
  if (mismatch) std::move(error).with_detail(CompanionMismatch{std::move(path)});
  SHARDKIT_TRY(in.expect_end());
  return error;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

}  // namespace

Result<std::vector<std::string>> exchange_messages(ProcessGroup& group, Result<std::string> mine) {
  const auto size = static_cast<std::size_t>(group.size());
  struct Header {
    std::int64_t failed;
    std::int64_t bytes;
  };
  const std::string sent = mine.ok() ? *std::move(mine) : encode(mine.error());
  const Header header{!mine.ok(), static_cast<std::int64_t>(sent.size())};
  std::vector<Header> headers(size);
  SHARDKIT_TRY(group.all_gather(std::as_bytes(std::span(&header, 1)),
                                std::as_writable_bytes(std::span(headers))));
  std::vector<std::string> messages(size);
  std::vector<std::span<std::byte>> room;
  for (std::size_t rank = 0; rank < size; ++rank) {
    messages[rank].resize(static_cast<std::size_t>(headers[rank].bytes));
    room.push_back(bytes_of(messages[rank]));
  }
  SHARDKIT_TRY(group.all_gather(bytes_of(sent), room));
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (!headers[rank].failed) continue;
    return decode(static_cast<int>(rank), messages[rank]).error();
  }
  return messages;
}

Status agree_on_status(ProcessGroup& group, Status mine) {
  Result<std::string> message = std::string();
  if (!mine.ok()) message = std::move(mine).error();
  auto messages = exchange_messages(group, std::move(message));
  if (!messages.ok()) return std::move(messages).error();
  return {};
}

}  // namespace shardkit
