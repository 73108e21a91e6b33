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

Error::Error(ErrorCode code, std::string what)
    : parts_(std::make_unique<Parts>(Parts{code, std::move(what), {}, {}, {}, {}, {}, {}, {}})) {}

Error::Error(const Error& other) : parts_(std::make_unique<Parts>(*other.parts_)) {}

Error::~Error() = default;

Error& Error::operator=(Error other) noexcept {
  parts_ = std::move(other.parts_);
  return *this;
}

Error&& Error::in_file(std::string_view path) && {
  if (!parts_->file) parts_->file = std::string(path);
  return std::move(*this);
}

Error&& Error::at_offset(std::uint64_t byte) && {
  if (!parts_->offset) parts_->offset = byte;
  return std::move(*this);
}

Error&& Error::of_tensor(std::string_view name) && {
  if (!parts_->tensor) parts_->tensor = std::string(name);
  return std::move(*this);
}

Error&& Error::expected(std::string_view text) && {
  if (!parts_->expected) parts_->expected = std::string(text);
  return std::move(*this);
}

Error&& Error::found(std::string_view text) && {
  if (!parts_->found) parts_->found = std::string(text);
  return std::move(*this);
}

Error&& Error::from_system(int number) && {
  if (!parts_->system_number) parts_->system_number = number;
  return std::move(*this);
}

Error&& Error::with_detail(CompanionMismatch detail) && {
  if (!parts_->companion_mismatch) parts_->companion_mismatch = std::move(detail);
  return std::move(*this);
}

std::string Error::message() const {
  std::string text = parts_->what;
  auto add = [&text, first = true](std::string_view label, std::string_view value) mutable {
    text += fmt::format("{}{} {}", first ? ": " : ", ", label, value);
    first = false;
  };
  if (parts_->tensor) add("tensor", "'" + *parts_->tensor + "'");
  if (parts_->expected) add("expected", *parts_->expected);
  if (parts_->found) add("found", *parts_->found);
  if (parts_->file) add("file", "'" + *parts_->file + "'");
  if (parts_->offset) add("offset", std::to_string(*parts_->offset));
  return text;
}

}  // namespace shardkit
