// Cut: what one mesh dimension does to one tensor dimension; the arithmetic under the box rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/layout/box.h"
#include "shardkit/layout/sharding.h"

namespace shardkit {

/// Divides an ordered list of indices into `groups` (torch.chunk's rule), each group into `pieces`
/// (the same rule), and takes the piece of the mesh coordinate from every group. One group: Shard;
/// more: _StridedShard with that split factor (placement_types.py, torch 2.13).
struct Cut {
  std::size_t mesh_dim = 0;
  std::int64_t pieces = 1;  ///< the mesh dimension's size
  std::int64_t groups = 1;

  friend bool operator==(const Cut&, const Cut&) = default;
};

using Cuts = std::vector<Cut>;

/// torch.chunk's rule: chunks of ceil(length / pieces), the last ones shorter or empty.
/// REQUIRES: length >= 0, pieces >= 1, 0 <= index. An empty chunk lies at `length`.
Interval chunk(std::int64_t length, std::int64_t pieces, std::int64_t index);

/// The cuts of one tensor dimension, first one first. Mesh dimensions of size 1 cut nothing and are
/// left out. REQUIRES: check_sharding(sharding).ok().
Cuts cuts_of(const Sharding& sharding, std::size_t tensor_dim, CutOrder order);

/// How many of `length` indices `coordinate` keeps. Constant time for each cut.
std::int64_t size_after(std::int64_t length, const Cuts& cuts, const Dims& coordinate);

/// Which of [0, length) `coordinate` keeps. Time and memory grow with the sum of the groups.
Intervals intervals_after(std::int64_t length, const Cuts& cuts, const Dims& coordinate);

}  // namespace shardkit
