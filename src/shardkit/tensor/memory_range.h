// Where views lie in memory: whether one may be written while another is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardkit/tensor/tensor.h"

namespace shardkit {

/// Addresses from a view's first byte to behind its last one.
struct MemoryRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// Empty if the view has no element. REQUIRES: check_view(tensor).ok(), a storage in memory.
MemoryRange memory_range(const Tensor& tensor);

/// Whether each element has a place of its own, so that the view may be written. Says no to some
/// views that interleave (sizes 2 and 3, strides 3 and 2), which no PyTorch function makes by
/// itself. REQUIRES: check_view(tensor).ok().
bool has_own_places(const Tensor& tensor);

/// Many ranges, asked whether one of them meets another.
class MemoryRanges {
 public:
  explicit MemoryRanges(std::vector<MemoryRange> ranges);

  /// Whether any range shares a byte with `other`. Logarithmic. Views that interleave share the
  /// bytes between their elements, too.
  bool overlap(const MemoryRange& other) const;

 private:
  std::vector<MemoryRange> ranges_;  // by begin; each end is the farthest of all up to there
};

}  // namespace shardkit
