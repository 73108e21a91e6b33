// Whether PyTorch's own ranks agree on what a DTensor is.
#pragma once

#include "shardkit/layout/sharding.h"

namespace shardkit {

/// Whether full_tensor() gives the same tensor on all ranks of the mesh, where these hold the
/// shards by their positions in the process groups (RankOrder::kProcessGroup). Always so where all
/// lines of the mesh count upwards.
///
/// PyTorch gathers along the lines of the mesh array, one mesh dimension after the other (torch
/// 2.13: tensor/_redistribute.py), so that the ranks of a line must be at one position of each
/// dimension that is still to be gathered. Where they are not, [[0, 3], [1, 2]] with
/// [Shard(0), Shard(0)] for instance, its ranks read different tensors without a word.
///
/// @param sharding  REQUIRES check_sharding(sharding).ok()
bool ranks_read_alike(const Sharding& sharding);

}  // namespace shardkit
