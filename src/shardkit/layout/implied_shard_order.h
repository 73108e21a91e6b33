// The order of cutting that placements stand for without a shard_order of their own.
#pragma once

#include <optional>
#include <vector>

#include "shardkit/layout/sharding.h"

namespace shardkit {

/// What the split factor of a _StridedShard is taken for.
enum class SplitFactors {
  kOrder,    ///< the number of pieces that the mesh dimensions before it in the order make
  kNoOrder,  ///< nothing: mesh dimensions cut from left to right
};

/// The shard_order that placements stand for alone, by tensor dimension; none where split factors
/// tell of no order, or placements are not as many as mesh dimensions (torch 2.10 and 2.13,
/// _dtensor_spec.py compute_default_shard_order and _maybe_convert_StridedShard_to_shard_order).
/// REQUIRES: a mesh.
std::optional<std::vector<ShardOrder>> implied_shard_order(const Sharding& sharding,
                                                           SplitFactors meaning);

}  // namespace shardkit
