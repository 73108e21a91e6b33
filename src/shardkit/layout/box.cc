// Box: intersecting boxes, and cutting products of intervals into them.
#include "shardkit/layout/box.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "shardkit/base/checked_math.h"

namespace shardkit {
namespace {

// Boxes may come from a file, so their ends may lie past int64; no tensor reaches there.
std::int64_t end_of(const Box& box, std::size_t d) {
  return checked_add(box.offset[d], box.shape[d])
      .value_or(std::numeric_limits<std::int64_t>::max());
}

}  // namespace

std::int64_t size(const Intervals& intervals) {
  std::int64_t total = 0;
  for (const Interval& interval : intervals) total += interval.size();
  return total;
}

bool Box::empty() const {
  return std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size <= 0; });
}

Box whole(const Dims& shape) { return Box{Dims(shape.size(), 0), shape}; }

std::optional<Box> intersect(const Box& a, const Box& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  Box common{Dims(a.shape.size(), 0), Dims(a.shape.size(), 0)};
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(end_of(a, d), end_of(b, d));
    if (begin >= end) return std::nullopt;
    common.offset[d] = begin;
    common.shape[d] = end - begin;
  }
  return common;
}

bool lies_inside(const Box& inner, const Dims& shape) {
  if (inner.offset.size() != shape.size() || inner.shape.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (inner.offset[d] < 0 || inner.shape[d] < 0 || shape[d] < 0) return false;
    if (inner.shape[d] > shape[d] || inner.offset[d] > shape[d] - inner.shape[d]) return false;
  }
  return true;
}

std::vector<BoxPair> cut_into_boxes(const std::vector<Intervals>& dims) {
  std::vector<BoxPair> boxes;
  std::size_t count = 1;
  for (const Intervals& intervals : dims) {
    if (intervals.empty()) return boxes;
    count = checked_mul(count, intervals.size()).value_or(0);
  }
  boxes.reserve(count);

  std::vector<std::size_t> choice(dims.size(), 0);
  BoxPair pair{Dims(dims.size(), 0), Box{Dims(dims.size(), 0), Dims(dims.size(), 0)}};
  for (std::size_t d = 0; d < dims.size(); ++d) {
    pair.global.offset[d] = dims[d][0].begin;
    pair.global.shape[d] = dims[d][0].size();
  }
  while (true) {
    boxes.push_back(pair);
    std::size_t d = dims.size();
    while (d-- > 0) {  // the next choice, last dimension fastest
      const Interval& left = dims[d][choice[d]];
      const bool wrap = ++choice[d] == dims[d].size();
      if (wrap) choice[d] = 0;
      const Interval& entered = dims[d][choice[d]];
      pair.local_offset[d] = wrap ? 0 : pair.local_offset[d] + left.size();
      pair.global.offset[d] = entered.begin;
      pair.global.shape[d] = entered.size();
      if (!wrap) break;
    }
    if (d == static_cast<std::size_t>(-1)) return boxes;
  }
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.shape.size(); ++d)
    text += fmt::format("{}{}:{}", d > 0 ? ", " : "", box.offset[d], end_of(box, d));
  return text + "]";
}

}  // namespace shardkit
