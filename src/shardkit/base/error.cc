#include "shardkit/base/error.h"

#include <fmt/format.h>

namespace shardkit {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kUnsafe: return "unsafe";
    case ErrorCode::kIncomplete: return "incomplete";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kLimit: return "limit";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kPeer: return "peer";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

Error&& Error::in_file(std::string_view path) && {
  if (!file_) file_ = std::string(path);
  return std::move(*this);
}

Error&& Error::at_offset(std::uint64_t byte) && {
  if (!offset_) offset_ = byte;
  return std::move(*this);
}

Error&& Error::of_tensor(std::string_view name) && {
  if (!tensor_) tensor_ = std::string(name);
  return std::move(*this);
}

Error&& Error::expected(std::string_view text) && {
  if (!expected_) expected_ = std::string(text);
  return std::move(*this);
}

Error&& Error::found(std::string_view text) && {
  if (!found_) found_ = std::string(text);
  return std::move(*this);
}

Error&& Error::from_system(int number) && {
  if (!system_number_) system_number_ = number;
  return std::move(*this);
}

Error&& Error::with_detail(CompanionMismatch detail) && {
  if (!companion_mismatch_) companion_mismatch_ = std::move(detail);
  return std::move(*this);
}

std::string Error::message() const {
  std::string text = what_;
  auto add = [&text, first = true](std::string_view label, std::string_view value) mutable {
    text += fmt::format("{}{} {}", first ? ": " : ", ", label, value);
    first = false;
  };
  if (tensor_) add("tensor", "'" + *tensor_ + "'");
  if (expected_) add("expected", *expected_);
  if (found_) add("found", *found_);
  if (file_) add("file", "'" + *file_ + "'");
  if (offset_) add("offset", std::to_string(*offset_));
  return text;
}

}  // namespace shardkit
