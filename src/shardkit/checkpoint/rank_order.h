// Meshes whose ranks do not count upwards: in which order their members hold the shards.
#pragma once

#include <optional>
#include <span>

#include "shardkit/checkpoint/rank_pieces.h"
#include "shardkit/layout/sharding.h"

namespace shardkit {

/// The order of a mesh line's ranks in which they hold the chunks of a dimension.
///
/// PyTorch contradicts itself where a line's ranks do not count upwards: a DTensor's metadata
/// counts by the mesh array, but every collective and FSDP2's sharding count by the position in
/// the line's process group, whose ranks are sorted (torch 2.13: distributed_c10d.py
/// _new_group_with_tag; fsdp/_fully_shard/_fsdp_common.py shard_mesh_rank). Uneven chunks tell
/// which one the bytes follow.
enum class RankOrder : int {
  kProcessGroup,  ///< what fully_shard() stores and full_tensor() reads
  kMeshArray,     ///< what DTensor.from_local() of a chunk chosen by coordinate holds
};

/// Whether a mesh dimension that cuts this tensor has a line whose ranks do not count upwards.
bool is_out_of_order(const Sharding& sharding);

/// The coordinate by which `rank` holds its shard: in dimensions that cut by `order`, in the others
/// the mesh array's. REQUIRES: the rank is a member of the mesh.
Dims shard_coordinate(const Sharding& sharding, std::int64_t rank, RankOrder order);

/// What the local shapes of a tensor that is_out_of_order() say: the only order that fits them;
/// nothing if both do, or neither (which make_dtensor_pieces then reports).
std::optional<RankOrder> order_evidence(const MeshGroup& group);

}  // namespace shardkit
