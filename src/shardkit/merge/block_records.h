// BlockRecords: which blocks of the output are written, and their hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shardkit/base/result.h"

namespace shardkit {

class BlockRecords {
 public:
  virtual ~BlockRecords() = default;

  /// The hash that an earlier run recorded for a block. A claim: who relies on it reads the block.
  virtual std::optional<std::uint64_t> recorded(std::size_t file, std::uint64_t block) const = 0;

  /// Records a block that is written. For any thread. @error kIo
  virtual Status append(std::size_t file, std::uint64_t block, std::uint64_t hash) = 0;
};

}  // namespace shardkit
