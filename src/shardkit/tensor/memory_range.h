// Where views lie in memory: whether one may be written while another is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

/// Whether two tensors are one view of one memory. REQUIRES: of both, as memory_range().
bool is_same_view(const Tensor& a, const Tensor& b);

/// By place, the first tensor that is the same view as this one and stands before it (tied
/// tensors); nothing where there is none, and for one without elements. REQUIRES: as memory_range()
std::vector<std::optional<std::size_t>> find_ties(std::span<const Tensor* const> tensors);

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
