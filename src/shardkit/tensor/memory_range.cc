// Addresses of views.
#include "shardkit/tensor/memory_range.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace shardkit {

MemoryRange memory_range(const Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  std::int64_t last = tensor.offset;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d)
    last += (tensor.shape[d] - 1) * tensor.strides[d];
  const auto data = reinterpret_cast<std::uintptr_t>(tensor.storage->memory()->data);
  const std::int64_t item = item_bytes(tensor.dtype);
  return {data + static_cast<std::uintptr_t>(tensor.offset * item),
          data + static_cast<std::uintptr_t>((last + 1) * item)};
}

bool has_own_places(const Tensor& tensor) {
  if (tensor.numel() == 0) return true;
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, size
  for (std::size_t d = 0; d < tensor.shape.size(); ++d)
    if (tensor.shape[d] > 1) dims.emplace_back(tensor.strides[d], tensor.shape[d]);
  std::sort(dims.begin(), dims.end());
  std::int64_t inner = 0;  // the farthest that the smaller strides reach
  for (const auto& [stride, size] : dims) {
    if (stride <= inner) return false;
    inner += (size - 1) * stride;
  }
  return true;
}

bool is_same_view(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides &&
         memory_range(a).begin == memory_range(b).begin;
}

std::vector<std::optional<std::size_t>> find_ties(std::span<const Tensor* const> tensors) {
  std::vector<std::optional<std::size_t>> ties(tensors.size());
  std::unordered_multimap<std::uintptr_t, std::size_t> known;  // without those that are tied to one
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i]->numel() == 0) continue;
    const std::uintptr_t begin = memory_range(*tensors[i]).begin;
    const auto [first, end] = known.equal_range(begin);
    const auto same = std::find_if(first, end, [&](const auto& place) {
      return is_same_view(*tensors[place.second], *tensors[i]);
    });
    if (same != end)
      ties[i] = same->second;
    else
      known.emplace(begin, i);
  }
  return ties;
}

MemoryRanges::MemoryRanges(std::vector<MemoryRange> ranges) : ranges_(std::move(ranges)) {
  std::erase_if(ranges_, [](const MemoryRange& range) { return range.begin == range.end; });
  std::sort(ranges_.begin(), ranges_.end(),
            [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges_.size(); ++i)
    ranges_[i].end = std::max(ranges_[i].end, ranges_[i - 1].end);
}

bool MemoryRanges::overlap(const MemoryRange& other) const {
  if (other.begin == other.end) return false;
  const auto behind =
      std::partition_point(ranges_.begin(), ranges_.end(),
                           [&](const MemoryRange& range) { return range.begin < other.end; });
  return behind != ranges_.begin() && std::prev(behind)->end > other.begin;
}

}  // namespace shardkit
