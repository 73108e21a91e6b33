// Error: what went wrong, where, and what the caller can do about it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace shardkit {

/// What the caller should do next; each code names one reaction.
enum class ErrorCode {
  kInvalidArgument,  ///< fix the call or the command line
  kNotFound,         ///< the path or name does not exist
  kCorrupt,          ///< the file breaks its format: fetch it again
  kUnsafe,           ///< well-formed, but refused because it could do harm
  kIncomplete,       ///< ranks, shards or coverage are missing or contradict each other
  kUnsupported,      ///< valid, but shardkit does not handle it
  kLimit,            ///< larger or deeper than a stated limit
  kIo,               ///< the operating system said no
  kPeer,             ///< another rank failed or did not answer in time
  kCancelled,        ///< the caller asked to stop
  kInternal,         ///< a bug in shardkit
};

/// The code's name in snake_case, as it appears in JSON output ("corrupt", "io", ...).
std::string_view to_string(ErrorCode code);

/// A detail that only one error has: a state dict does not have the structure of the one that it is
/// to be copied into (torch 2.13, torch/distributed/_state_dict_utils.py, CompanionMismatch).
struct CompanionMismatch {
  std::string path;  ///< where they differ, keys and indices joined by "."; the root is empty
};

/// An error as a value: a code, a sentence, and the place it speaks of.
///
/// The place (file, byte offset, tensor, expected, found) is added as the error rises through the
/// layers; whoever knew first is nearest to the fault, so a part that is already set is kept.
///
/// As large as a pointer, so that a Result costs little where nothing goes wrong. An error that was
/// moved from may only be assigned to or destroyed.
class Error {
 public:
  Error(ErrorCode code, std::string what);
  Error(const Error& other);
  Error(Error&&) noexcept = default;
  ~Error();
  Error& operator=(Error other) noexcept;

  Error&& in_file(std::string_view path) &&;
  Error&& at_offset(std::uint64_t byte) &&;
  Error&& of_tensor(std::string_view name) &&;
  Error&& expected(std::string_view text) &&;
  Error&& found(std::string_view text) &&;
  Error&& from_system(int number) &&;
  Error&& with_detail(CompanionMismatch detail) &&;

  ErrorCode code() const { return parts_->code; }
  const std::string& what() const { return parts_->what; }
  const std::optional<std::string>& file() const { return parts_->file; }
  const std::optional<std::uint64_t>& offset() const { return parts_->offset; }
  const std::optional<std::string>& tensor() const { return parts_->tensor; }
  const std::optional<std::string>& expected_text() const { return parts_->expected; }
  const std::optional<std::string>& found_text() const { return parts_->found; }
  const std::optional<CompanionMismatch>& companion_mismatch() const {
    return parts_->companion_mismatch;
  }
  /// The errno of a system call that failed.
  const std::optional<int>& system_number() const { return parts_->system_number; }

  /// One line: the sentence, then every part of the place that is known.
  std::string message() const;

 private:
  struct Parts {
    ErrorCode code;
    std::string what;
    std::optional<std::string> file;
    std::optional<std::uint64_t> offset;
    std::optional<std::string> tensor;
    std::optional<std::string> expected;
    std::optional<std::string> found;
    std::optional<int> system_number;
    std::optional<CompanionMismatch> companion_mismatch;
  };

  std::unique_ptr<Parts> parts_;
};

}  // namespace shardkit
