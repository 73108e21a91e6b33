// Interval and Box: half-open ranges of indices, in one and in several dimensions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/dims.h"

namespace shardkit {

/// Indices begin <= i < end of one dimension.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// What a rank holds of one dimension: intervals in the order in which they lie in the local
/// tensor; disjoint, none empty. No interval: nothing.
using Intervals = std::vector<Interval>;

/// Total length.
std::int64_t size(const Intervals& intervals);

/// A product of half-open ranges: offset[d] <= i_d < offset[d] + shape[d].
struct Box {
  Dims offset;
  Dims shape;

  bool empty() const;
  friend bool operator==(const Box&, const Box&) = default;
};

/// The same elements in the local tensor (where they lie) and in the global one (what they are).
struct BoxPair {
  Dims local_offset;
  Box global;  ///< its shape is the shape of both

  friend bool operator==(const BoxPair&, const BoxPair&) = default;
};

/// The whole index space of a tensor. No dimensions: the box of one element.
Box whole(const Dims& shape);

/// The common part; nothing where the boxes share no element. REQUIRES: equal dimensions.
std::optional<Box> intersect(const Box& a, const Box& b);

/// Whether `inner` lies inside a tensor of this shape; offsets not negative, nothing overflows.
bool lies_inside(const Box& inner, const Dims& shape);

/// Cuts the product of interval lists, one list a dimension, into boxes: one for each choice of an
/// interval in every dimension, in row-major order of the choices. No dimensions: one box of one
/// element. Any list empty: no box.
std::vector<BoxPair> cut_into_boxes(const std::vector<Intervals>& dims);

/// "[0:4, 2:3]".
std::string to_string(const Box& box);

}  // namespace shardkit
