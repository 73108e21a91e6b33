// Ranges of a row-major tensor's elements as boxes, and where a box's elements come in that order.
#pragma once

#include <cstdint>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/layout/box.h"

namespace shardkit {

/// Elements [begin, end) of a row-major tensor as boxes, in order; each box is itself a run of
/// elements. At most 2 * dimensions - 1 boxes.
/// REQUIRES: 0 <= begin <= end <= elements of shape.
std::vector<Box> boxes_of_range(const Dims& shape, std::int64_t begin, std::int64_t end);

/// Where the element at an index lies: the sum of index[d] * strides[d]. With
/// contiguous_strides(shape) its place in row-major order.
std::int64_t position_of(const Dims& index, const Dims& strides);

/// From the place of a box's first element in the row-major order of a tensor to behind its last.
/// REQUIRES: strides = contiguous_strides(shape of the tensor), a box with elements.
Interval places_of(const Box& box, const Dims& strides);

/// The index at a place of the row-major order. REQUIRES: 0 <= position < elements of shape.
Dims index_at(const Dims& shape, std::int64_t position);

/// An end for a range that starts at `begin` and should hold about `target` elements: the last
/// place not after begin + target where whole rows (or planes, ...) end, if that is at least half
/// of it; so that ranges cut few rows. Never after `end`; after `begin` if begin < end.
std::int64_t round_range_end(const Dims& shape, std::int64_t begin, std::int64_t end,
                             std::int64_t target);

}  // namespace shardkit
