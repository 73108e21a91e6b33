// distribute_tensors() and distribute_state_dict(): every rank has the whole and keeps its boxes.
#pragma once

#include <span>
#include <string>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/state/value.h"

namespace shardkit {

// Both fill the tensors of a local state dict from those of a full one. Collective: all ranks of
// `group`, whose ranks the meshes name, call them; no element travels, but the ranks tell each
// other what they are about to fill, so that all of them go on or none does.
//
// What is filled:
// - a Tensor or DTensor in memory is written in place, with its own strides. (PyTorch replaces
//   plain tensors, and in distribute_state_dict() DTensors, too, by new ones.)
// - a meta tensor is replaced by one in memory of its own; a DTensor keeps its sharding
// - None stays None, but where the tensor has no dimensions; a DTensor on a mesh without this rank
//   stays as it is
// - any other entry is replaced by a new whole tensor
//
// A DTensor's boxes are those of layout/sharding.h: strided and uneven placements are right, where
// PyTorch takes one box for each rank and says in a TODO that this is not so. Where a placement has
// two readings (FSDP2 over uneven tensor parallelism), the local shapes of all ranks decide, as in
// decide_cut_order(). On a mesh whose ranks do not count upwards, ranks get what
// gather_state_dict() reads from them (checkpoint/rank_order.h): by their position in the process
// groups, as PyTorch's full_tensor() reads it, unless only the mesh array's order fits the local
// shapes. Where full_tensor() is another on some ranks than on others, and no shape tells, there is
// an error.
// PyTorch's _distribute_tensors fills by the mesh array always, and its full_tensor() of that has
// the shards in another order.
//
// Errors, the same on all ranks, and before a byte is written:
// - kInvalidArgument: a local tensor has another shape or dtype than the full one, lies in a file,
//   shares memory with a full tensor or has elements that share memory; two are the same view of
//   one memory (tied), and not filled with the same elements; a mesh has ranks outside the group;
//   the ranks of a DTensor's mesh disagree on its presence, dtype, placements or shape; the full
//   state holds a DTensor or ShardedTensor, or one in a file or without bytes
// - kUnsupported: Partial placements, of which PyTorch makes as many copies as there are ranks
//   (distribute_tensors) or parts of the sum (distribute_state_dict); a ShardedTensor to be filled
// - kIncomplete: local shapes that the placements do not explain
// - kLimit no memory; as ProcessGroup
//
// REQUIRES: what ranks of one process write shares no memory with what another one reads or writes.
// Memory: the new tensors alone, and the later ones of those that are tied. Cost: one exchange of
// some 100 bytes a tensor, and the copies.

/// Fills the tensors of `local` under `keys` from those of `full` (torch 2.13, torch/distributed/
/// _state_dict_utils.py, _distribute_tensors, which finds the full tensors in pairs that its caller
/// put into the local state).
///
/// @param keys  each must be a tensor of `full`; those that `local` lacks are skipped. Ranks may
///              have different ones, but for DTensors that they share.
/// @error kNotFound a key is not in `full`
Status distribute_tensors(const Dict& full, std::span<const std::string> keys, Dict& local,
                          ProcessGroup& group);

/// All of `full` (torch 2.13, _distribute_state_dict): tensors as above, those without dimensions
/// and values that are no tensors also where `local` has no such key; it is then added.
///
/// @param full  text keys. Tensors within its containers are shared with it, as in PyTorch.
Status distribute_state_dict(const Dict& full, Dict& local, ProcessGroup& group);

}  // namespace shardkit
