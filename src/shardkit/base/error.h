// Error: what went wrong, where, and what the caller can do about it.
#pragma once

#include <cstdint>
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
class Error {
 public:
  Error(ErrorCode code, std::string what) : code_(code), what_(std::move(what)) {}

  Error&& in_file(std::string_view path) &&;
  Error&& at_offset(std::uint64_t byte) &&;
  Error&& of_tensor(std::string_view name) &&;
  Error&& expected(std::string_view text) &&;
  Error&& found(std::string_view text) &&;
  Error&& from_system(int number) &&;
  Error&& with_detail(CompanionMismatch detail) &&;

  ErrorCode code() const { return code_; }
  const std::string& what() const { return what_; }
  const std::optional<std::string>& file() const { return file_; }
  const std::optional<std::uint64_t>& offset() const { return offset_; }
  const std::optional<std::string>& tensor() const { return tensor_; }
  const std::optional<std::string>& expected_text() const { return expected_; }
  const std::optional<std::string>& found_text() const { return found_; }
  const std::optional<CompanionMismatch>& companion_mismatch() const {
    return companion_mismatch_;
  }
  /// The errno of a system call that failed.
  const std::optional<int>& system_number() const { return system_number_; }

  /// One line: the sentence, then every part of the place that is known.
  std::string message() const;

 private:
  ErrorCode code_;
  std::string what_;
  std::optional<std::string> file_;
  std::optional<std::uint64_t> offset_;
  std::optional<std::string> tensor_;
  std::optional<std::string> expected_;
  std::optional<std::string> found_;
  std::optional<int> system_number_;
  std::optional<CompanionMismatch> companion_mismatch_;
};

}  // namespace shardkit
