#include "shardkit/transfer/element_range.h"

#include <algorithm>

#include "shardkit/base/checked_math.h"

namespace shardkit {
namespace {

/// Boxes of [begin, end) within the sub-tensor of dimensions >= dim whose place is fixed by
/// `prefix` in the dimensions before.
void append_boxes(const Dims& shape, const Dims& strides, std::size_t dim, Box& prefix,
                  std::int64_t begin, std::int64_t end, std::vector<Box>& boxes) {
  if (begin == end) return;
  if (dim == shape.size()) {
    boxes.push_back(prefix);
    return;
  }
  const std::int64_t row = strides[dim];
  const auto emit = [&](std::int64_t first, std::int64_t count) {
    Box box = prefix;
    box.offset[dim] = first;
    box.shape[dim] = count;
    for (std::size_t d = dim + 1; d < shape.size(); ++d) {
      box.offset[d] = 0;
      box.shape[d] = shape[d];
    }
    boxes.push_back(std::move(box));
  };
  const auto descend = [&](std::int64_t index, std::int64_t from, std::int64_t to) {
    prefix.offset[dim] = index;
    prefix.shape[dim] = 1;
    append_boxes(shape, strides, dim + 1, prefix, from, to, boxes);
  };
  const std::int64_t first = begin / row;
  const std::int64_t last = end / row;
  if (first == last) {
    descend(first, begin - first * row, end - first * row);
    return;
  }
  std::int64_t whole_from = first;
  if (begin != first * row) {
    descend(first, begin - first * row, row);
    ++whole_from;
  }
  if (whole_from < last) emit(whole_from, last - whole_from);
  if (end != last * row) descend(last, 0, end - last * row);
}

}  // namespace

std::vector<Box> boxes_of_range(const Dims& shape, std::int64_t begin, std::int64_t end) {
  std::vector<Box> boxes;
  Box prefix{Dims(shape.size(), 0), Dims(shape.size(), 1)};
  append_boxes(shape, contiguous_strides(shape), 0, prefix, begin, end, boxes);
  return boxes;
}

std::int64_t position_of(const Dims& index, const Dims& strides) {
  std::int64_t position = 0;
  for (std::size_t d = 0; d < index.size(); ++d) position += index[d] * strides[d];
  return position;
}

Interval places_of(const Box& box, const Dims& strides) {
  const std::int64_t begin = position_of(box.offset, strides);
  std::int64_t last = begin;
  for (std::size_t d = 0; d < strides.size(); ++d) last += (box.shape[d] - 1) * strides[d];
  return {begin, last + 1};
}

Dims index_at(const Dims& shape, std::int64_t position) {
  Dims index(shape.size(), 0);
  const Dims strides = contiguous_strides(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    index[d] = position / strides[d];
    position %= strides[d];
  }
  return index;
}

std::int64_t round_range_end(const Dims& shape, std::int64_t begin, std::int64_t end,
                             std::int64_t target) {
  if (end - begin <= target) return end;
  const std::int64_t limit = begin + target;
  for (const std::int64_t row : contiguous_strides(shape)) {
    const std::int64_t rounded = limit / row * row;
    if (rounded - begin >= target / 2 + target % 2) return rounded;
  }
  return limit;
}

}  // namespace shardkit
