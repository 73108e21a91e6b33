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

/// Pairs that may be compared one by one: a thousand interlocked boxes, and no hostile million.
constexpr std::size_t kMaxPairs = 10'000'000;

/// Cuts within cuts. A sharding's grid needs a few; a hostile staircase, of which each cut takes a
/// single box, would need as many as it has boxes, in time and on the stack.
constexpr int kMaxDepth = 256;

/// Cuts boxes apart along one dimension after another.
class OverlapSearch {
 public:
  /// `tried` dimensions in a row have not separated the boxes.
  Result<Overlap> find(std::span<Box> boxes, std::size_t dim, std::size_t tried, int depth) {
    if (boxes.size() < 2) return Overlap();
    if (depth > kMaxDepth) return too_interlocked(boxes);
    const std::size_t dims = boxes.front().offset.size();
    if (tried == dims) return compare_pairs(boxes);
    std::sort(boxes.begin(), boxes.end(),
              [dim](const Box& a, const Box& b) { return a.offset[dim] < b.offset[dim]; });
    std::size_t begin = 0;
    std::int64_t reach = 0;  // where the boxes since `begin` end
    for (std::size_t i = 0; i <= boxes.size(); ++i) {
      if (i == boxes.size() || (i > begin && boxes[i].offset[dim] >= reach)) {
        const bool all = begin == 0 && i == boxes.size();
        SHARDKIT_ASSIGN(Overlap found, find(boxes.subspan(begin, i - begin), (dim + 1) % dims,
                                            all ? tried + 1 : 0, depth + 1));
        if (found) return found;
        begin = i;
        reach = 0;
      }
      if (i < boxes.size()) reach = std::max(reach, boxes[i].offset[dim] + boxes[i].shape[dim]);
    }
    return Overlap();
  }

 private:
  static Error too_interlocked(std::span<const Box> boxes) {
    return Error(ErrorCode::kLimit, "the pieces interlock too much to be checked for overlap")
        .found(fmt::format("{} pieces", boxes.size()));
  }

  Result<Overlap> compare_pairs(std::span<const Box> boxes) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      pairs_ += boxes.size() - i - 1;
      if (pairs_ > kMaxPairs) return too_interlocked(boxes);
      for (std::size_t j = i + 1; j < boxes.size(); ++j)
        if (intersect(boxes[i], boxes[j])) return Overlap(std::pair(boxes[i], boxes[j]));
    }
    return Overlap();
  }

  std::size_t pairs_ = 0;
};

}  // namespace

Result<std::optional<std::pair<Box, Box>>> find_overlap(std::vector<Box> boxes) {
  return OverlapSearch().find(boxes, 0, 0, 0);
}

Status check_tiling(const Dims& shape, std::vector<Box> boxes) {
  const auto elements = element_count(shape);
  if (!elements)
    return Error(ErrorCode::kInvalidArgument,
                 "a size is negative, or the shape has too many elements")
        .found(to_string(shape));
  std::optional<std::int64_t> covered = 0;
  for (const Box& box : boxes) {
    if (box.offset.size() != shape.size() || !lies_inside(box, shape))
      return Error(ErrorCode::kIncomplete, "a piece leaves its tensor")
          .expected(fmt::format("a box inside {}", to_string(shape)))
          .found(to_string(box));
    const auto volume = element_count(box.shape);  // at most *elements: the box lies inside
    covered = covered && volume ? checked_add(*covered, *volume) : std::nullopt;
  }
  SHARDKIT_ASSIGN(const auto overlap, find_overlap(std::move(boxes)));
  if (overlap)
    return Error(ErrorCode::kIncomplete, "two pieces hold the same elements")
        .found(fmt::format("{} and {}", to_string(overlap->first), to_string(overlap->second)));
  if (covered != elements)
    return Error(ErrorCode::kIncomplete, "the pieces do not cover the tensor")
        .expected(fmt::format("{} elements", *elements))
        .found(covered ? fmt::format("{}", *covered) : "more than an int64 counts");
  return {};
}

}  // namespace shardkit
