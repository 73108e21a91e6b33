// BlockMaker: one block of an output file from the pieces of its tensors, part by part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "shardkit/base/result.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/block_hash.h"
#include "shardkit/transfer/range_reader.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

/// Reads, casts, hashes and hands to the sink in parts of about a megabyte, each while it is still
/// in the processor's cache. For one thread.
class BlockMaker {
 public:
  /// Buffers of this size, each allocated when first needed: the reader's, and the part. Beyond
  /// them FoldReader::bytes_needed().
  static constexpr std::size_t kBuffers = RangeReader::kBuffers + 1;

  /// @param files         shared by all makers
  /// @param buffer_bytes  at least 1 MiB
  /// All outlive this.
  BlockMaker(const Plan& plan, FileCache& files, BlockSink& sink, std::size_t buffer_bytes);

  /// Makes a block of a file, unless the sink has it.
  /// @error as RangeReader::read, BlockSink::has, write and end_block
  Status make(std::size_t file, std::uint64_t offset, std::uint64_t bytes);

 private:
  Status add_head(std::string_view head, std::uint64_t begin, std::uint64_t end);
  Status add_tensor(const PlannedTensor& planned, std::uint64_t begin, std::uint64_t end);
  Status flush();

  const Plan& plan_;
  BlockSink& sink_;
  RangeReader reader_;
  BlockHasher hasher_;
  std::optional<PieceIndex> pieces_;  ///< of the tensor that was read last
  const std::size_t part_capacity_;
  std::unique_ptr<std::byte[]> part_;
  std::size_t part_bytes_ = 0;
  std::size_t file_ = 0;
  std::uint64_t part_offset_ = 0;  ///< in the file
};

}  // namespace shardkit
