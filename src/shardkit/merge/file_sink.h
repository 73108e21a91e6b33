// FileSink: the blocks of a transfer into the files of a folder.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/durability.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/block_records.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

/// Opens each file at its first block; finishes it after its last, so that few are open at
/// once however many there are. Records the hash of every block; takes over blocks that are there
/// already, where a recorded hash proves them.
class FileSink final : public BlockSink {
 public:
  /// @param folder      where the files lie; those that are not there yet are made
  /// @param durability  kSynced: each file is on the device when its last block was written
  /// @param blocks      those that the transfer makes
  /// `fs`, `records` and `plan` outlive this.
  FileSink(FileSystem& fs, std::string folder, Durability durability, BlockRecords& records,
           const Plan& plan, const BlockRange& blocks = {});

  Result<bool> has(std::size_t file, std::uint64_t offset, std::uint64_t bytes,
                   std::span<std::byte> scratch) override;
  Status write(std::size_t file, std::uint64_t offset, std::span<const std::byte> part) override;
  void overflowed(std::size_t tensor, std::uint64_t values) override;
  Status end_block(std::size_t file, std::uint64_t offset, std::uint64_t bytes,
                   std::uint64_t hash) override;

  /// For each file the hashes of its blocks; 0 for those that the transfer did not make.
  /// REQUIRES: the transfer is done.
  const std::vector<std::vector<std::uint64_t>>& hashes() const { return hashes_; }
  /// Values that became infinite as float16, by tensor. A block that holds an infinite value is
  /// never taken over, so that all are counted.
  const std::map<std::size_t, std::uint64_t>& overflows() const { return overflows_; }
  /// Blocks that were taken over.
  std::uint64_t blocks_kept() const { return blocks_kept_; }

 private:
  struct Output {
    std::shared_ptr<WritableFile> file;
    bool exists = false;
    std::uint64_t blocks_left = 0;
  };

  std::string path_of(std::size_t file) const;
  Result<std::shared_ptr<WritableFile>> opened(std::size_t file);
  Status count_block(std::size_t file, std::uint64_t block, std::uint64_t hash);

  FileSystem& fs_;
  const std::string folder_;
  const Durability durability_;
  BlockRecords& records_;
  const Plan& plan_;
  std::mutex mutex_;
  std::vector<Output> outputs_;
  std::vector<std::vector<std::uint64_t>> hashes_;
  std::uint64_t blocks_kept_ = 0;
  std::map<std::size_t, std::uint64_t> overflows_;
  bool may_overflow_ = false;
};

}  // namespace shardkit
