// BlockJournal: which blocks of the output a killed merge had written, and their hashes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// An append-only file of 32-byte records, each with a check of its own: one that a crash cut short
/// is not taken. A record is a claim; who relies on it reads the block and compares the hash.
class BlockJournal {
 public:
  /// Opens the journal at `path`, with what it holds, or makes one. @error kIo
  static Result<BlockJournal> open(FileSystem& fs, const std::string& path);

  /// The hash that was recorded for a block, of those that open() found.
  std::optional<std::uint64_t> recorded(std::size_t file, std::uint64_t block) const;

  /// Records a block that is written. For any thread. @error kIo
  Status append(std::size_t file, std::uint64_t block, std::uint64_t hash);

  /// @error kIo
  Status close() { return file_->close(); }

 private:
  explicit BlockJournal(std::unique_ptr<WritableFile> file)
      : file_(std::move(file)), mutex_(std::make_unique<std::mutex>()) {}

  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<std::mutex> mutex_;
  std::uint64_t end_ = 0;
  std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> recorded_;
};

}  // namespace shardkit
