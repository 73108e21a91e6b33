// ToldRecords: the blocks that a rank writes, told to rank 0, which keeps the journal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/merge/block_journal.h"
#include "shardkit/merge/block_records.h"

namespace shardkit {

/// Notes of a RankCalls step. One journal in the stage, as of a merge by one process, is what lets
/// any number of ranks take up the work of any other.
class ToldRecords final : public BlockRecords {
 public:
  struct Record {
    std::size_t file;
    std::uint64_t block;
    std::uint64_t hash;
  };
  struct Note {
    std::uint64_t bytes_done = 0;
    std::vector<Record> records;
  };

  /// @param recorded  what the journal held before
  explicit ToldRecords(BlockHashes recorded) : recorded_(std::move(recorded)) {}

  std::optional<std::uint64_t> recorded(std::size_t file, std::uint64_t block) const override;
  Status append(std::size_t file, std::uint64_t block, std::uint64_t hash) override;

  /// Of this rank's share. For any thread.
  void set_bytes_done(std::uint64_t bytes) { bytes_done_ = bytes; }

  /// What was appended since the last note. For any thread.
  std::string take_note();
  /// @error kPeer it is no such note
  static Result<Note> read_note(std::string_view bytes);

 private:
  const BlockHashes recorded_;
  std::atomic<std::uint64_t> bytes_done_ = 0;
  std::mutex mutex_;
  std::vector<Record> untold_;
};

}  // namespace shardkit
