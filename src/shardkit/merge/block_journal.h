// BlockJournal: which blocks of the output a killed merge had written, and their hashes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/block_records.h"

namespace shardkit {

/// Of the journal in a stage; docs/publish.md.
inline constexpr std::string_view kBlockJournalName = "blocks";

/// By file and block, its hash.
using BlockHashes = std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t>;

/// An append-only file of 32-byte records, each with a check of its own: one that a crash cut short
/// is not taken.
class BlockJournal final : public BlockRecords {
 public:
  /// Opens the journal at `path`, with what it holds, or makes one. @error kIo
  static Result<BlockJournal> open(FileSystem& fs, const std::string& path);

  /// What the journal at `path` holds; opens nothing for writing. @error kNotFound, kIo
  static Result<BlockHashes> read(FileSystem& fs, const std::string& path);

  /// Of those that open() found.
  std::optional<std::uint64_t> recorded(std::size_t file, std::uint64_t block) const override;

  Status append(std::size_t file, std::uint64_t block, std::uint64_t hash) override;

  /// @error kIo
  Status close() { return file_->close(); }

 private:
  explicit BlockJournal(std::unique_ptr<WritableFile> file)
      : file_(std::move(file)), mutex_(std::make_unique<std::mutex>()) {}

  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<std::mutex> mutex_;
  std::uint64_t end_ = 0;
  BlockHashes recorded_;
};

}  // namespace shardkit
