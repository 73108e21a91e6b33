// Reading a pickled ShardedTensor, FSDP1's distributed tensor.
#pragma once

#include <functional>

#include "shardkit/base/result.h"
#include "shardkit/state/value.h"
#include "shardkit/torch_pt/objects.h"

namespace shardkit {

/// Reads what ShardedTensor.__getstate__ writes (torch/distributed/_shard/sharded_tensor/api.py):
/// the local shards, the metadata, and things that are not needed to know what the bytes are.
///
/// A local shard may itself be a ShardedTensor (FSDP1 without a mesh, over tensor parallelism:
/// torch/distributed/tensor/parallel/fsdp.py, _chunk_tensor): its shards become those of the outer
/// one, their offsets added. The file then knows the other ranks' shards only in part, and `shards`
/// is left empty.
///
/// Checked: shards lie inside the tensor and do not overlap (those without elements may lie
/// anywhere: ChunkShardingSpec puts them beyond the end), each local one is listed, and its
/// tensor has the size and dtype that its metadata says.
///
/// @param state       the pickled state
/// @param read_value  reads an object as a value of the tree (a tensor, or a ShardedTensor)
/// @error kCorrupt a check fails; kUnsupported another layout than strided; kLimit
Result<ShardedTensor> read_sharded_tensor(PtObjects& objects, ObjectId state,
                                          const std::function<Result<Value>(ObjectId)>& read_value);

}  // namespace shardkit
