// OutputBlocks: the blocks of a plan's files, numbered through, and their shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shardkit/plan/plan.h"

namespace shardkit {

/// Output is made in blocks of this many bytes, counted from the start of each file.
inline constexpr std::size_t kBlockBytes = 8 << 20;

/// Blocks [begin, end) of all files' blocks.
struct BlockRange {
  std::uint64_t begin = 0;
  std::uint64_t end = ~std::uint64_t{0};  ///< as many as there are, if fewer
};

/// Numbers the blocks of all files, file after file. Keeps 16 bytes a file.
class OutputBlocks {
 public:
  struct Place {
    std::size_t file = 0;
    std::uint64_t offset = 0;  ///< bytes from the start of the file
  };

  explicit OutputBlocks(std::span<const PlannedFile> files);

  std::uint64_t count() const { return count_; }
  /// REQUIRES: block < count()
  Place at(std::uint64_t block) const;

  /// The numbers of the file's blocks that lie in a range.
  BlockRange of_file(std::size_t file, const BlockRange& range) const;

  /// One of `shares` runs of blocks that follow one another and hold about as many bytes each;
  /// together all blocks. Depends on nothing else, so that all who share find the same.
  /// REQUIRES: 0 <= share < shares
  BlockRange share(int share, int shares) const;

 private:
  std::vector<std::uint64_t> first_;  // block of each file
  std::vector<std::uint64_t> start_;  // bytes of all files before it
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace shardkit
