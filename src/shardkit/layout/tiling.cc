#include "shardkit/layout/tiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "shardkit/base/checked_math.h"

namespace shardkit {
namespace {

using Overlap = std::optional<std::pair<Box, Box>>;

Overlap overlap_pairwise(std::span<const Box> boxes) {
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = i + 1; j < boxes.size(); ++j)
      if (intersect(boxes[i], boxes[j])) return std::pair(boxes[i], boxes[j]);
  return std::nullopt;
}

/// Two boxes that overlap, if any do. Cuts the boxes apart along one dimension after another;
/// `tried` dimensions in a row have not separated them.
Overlap find_overlap(std::span<Box> boxes, std::size_t dim, std::size_t tried) {
  if (boxes.size() < 2) return std::nullopt;
  const std::size_t dims = boxes.front().offset.size();
  if (tried == dims) return overlap_pairwise(boxes);
  std::sort(boxes.begin(), boxes.end(), [dim](const Box& a, const Box& b) {
    return a.offset[dim] < b.offset[dim];
  });
  const std::size_t next = (dim + 1) % dims;
  std::size_t begin = 0;
  std::int64_t reach = 0;  // where the boxes since `begin` end
  for (std::size_t i = 0; i <= boxes.size(); ++i) {
    const bool cut = i == boxes.size() || (i > begin && boxes[i].offset[dim] >= reach);
    if (cut) {
      const bool whole = begin == 0 && i == boxes.size();
      if (auto found = find_overlap(boxes.subspan(begin, i - begin), next, whole ? tried + 1 : 0))
        return found;
      begin = i;
      reach = 0;
    }
    if (i < boxes.size()) reach = std::max(reach, boxes[i].offset[dim] + boxes[i].shape[dim]);
  }
  return std::nullopt;
}

}  // namespace

Status check_tiling(const Dims& shape, std::vector<Box> boxes) {
  const auto elements = element_count(shape);
  if (!elements) return Error(ErrorCode::kInvalidArgument, "the shape overflows");
  std::optional<std::int64_t> covered = 0;
  for (const Box& box : boxes) {
    if (box.offset.size() != shape.size() || !lies_inside(box, shape))
      return Error(ErrorCode::kIncomplete, "a piece leaves its tensor")
          .expected(fmt::format("a box inside {}", to_string(shape)))
          .found(to_string(box));
    const auto volume = element_count(box.shape);  // at most *elements: the box lies inside
    covered = covered && volume ? checked_add(*covered, *volume) : std::nullopt;
  }
  if (auto overlap = find_overlap(boxes, 0, 0))
    return Error(ErrorCode::kIncomplete, "two pieces hold the same elements")
        .found(fmt::format("{} and {}", to_string(overlap->first), to_string(overlap->second)));
  if (covered != elements)
    return Error(ErrorCode::kIncomplete, "the pieces do not cover the tensor")
        .expected(fmt::format("{} elements", *elements))
        .found(covered ? fmt::format("{}", *covered) : "more than an int64 counts");
  return {};
}

}  // namespace shardkit
