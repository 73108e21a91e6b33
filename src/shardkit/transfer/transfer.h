// Transfer: carries out a plan, block by block, on threads, in bounded memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/output_blocks.h"

namespace shardkit {

/// Takes the blocks of the output files as they are made.
class BlockSink {
 public:
  virtual ~BlockSink() = default;

  /// Asked before a block is made: whether the sink has it already, from a run that was killed.
  /// For any thread.
  /// @param offset   bytes from the start of the file; a multiple of kBlockBytes
  /// @param scratch  memory that the sink may use
  virtual Result<bool> has(std::size_t /*file*/, std::uint64_t /*offset*/, std::uint64_t /*bytes*/,
                           std::span<std::byte> /*scratch*/) {
    return false;
  }

  /// The next part of a block. Those of one block come in order from one thread; blocks are made
  /// on several threads at once, in no fixed order.
  /// @param file    index into Plan::files()
  /// @param offset  bytes from the start of the file
  virtual Status write(std::size_t file, std::uint64_t offset, std::span<const std::byte> part) = 0;

  /// Values of a tensor that are too large for float16 became infinite. Called as parts are made.
  /// @param tensor  index into Catalog::tensors
  virtual void overflowed(std::size_t /*tensor*/, std::uint64_t /*values*/) {}

  /// Every part of the block at `offset` was written.
  /// @param hash  block_hash() of the block
  virtual Status end_block(std::size_t /*file*/, std::uint64_t /*offset*/, std::uint64_t /*bytes*/,
                           std::uint64_t /*hash*/) {
    return {};
  }
};

struct Progress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;  ///< of output, all of it
};

struct TransferOptions {
  int threads = 0;                           ///< 0: as many as the processor runs at once
  BlockRange blocks;                         ///< what is made; the rest is left to others
  std::uint64_t memory_budget = 256u << 20;  ///< bytes for buffers; fewer threads if need be
  /// Called on the thread that called transfer(), some ten times a second and at the end.
  std::function<void(const Progress&)> on_progress;
  /// Set it to stop: no new block is begun, and the error is kCancelled. May be null.
  const std::atomic<bool>* cancel = nullptr;
};

/// Buffers for one thread take this much at least, so that a smaller budget is refused. Folds take
/// FoldReader::bytes_needed() more for each thread.
inline constexpr std::uint64_t kLeastBudget = 16u << 20;

/// Reads the sources of what is planned and hands the files' blocks to the sink.
///
/// The bytes do not depend on the number of threads. After an error no new block is begun; of
/// several errors the one of the first block is returned, so that the same input gives the same
/// error.
///
/// @error kInvalidArgument threads < 0, or the budget is below what one thread needs
/// @error kCancelled; as RangeReader::read and BlockSink::write
Status transfer(const Plan& plan, FileSystem& fs, BlockSink& sink, const TransferOptions& options);

}  // namespace shardkit
