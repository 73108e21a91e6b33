// gather_state_dict() and all_gather_sharded_tensor(): whole tensors of what ranks hold parts of.
#pragma once

#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/state/value.h"

namespace shardkit {

// Both are collective: all ranks of `group`, whose ranks the meshes name, call them. The ranks tell
// each other what they have before an element moves, and return the same error or none:
// - kInvalidArgument: as JointForms::exchange(), with the path; a tensor lies in a file or has no
//   bytes; what iterate_state_dict() says of the options
// - kIncomplete: local shapes that the placements do not explain, shards that do not cover the
//   tensor exactly once or that its metadata does not list, or a mesh in whose order of ranks
//   PyTorch's ranks read different tensors
// - kUnsupported: a reduction that accumulator_dtype() has not; a set or Opaque with type_check
// - kLimit no memory; as ProcessGroup: kPeer a rank is late or gone
// No rank waits longer than the group's timeout for another that failed.

struct GatherOptions {
  std::string device = "cpu";        ///< as in IterateOptions
  bool cpu_offload = false;          ///< as in IterateOptions: what is in CPU memory stays there
  std::vector<int> ranks_only = {};  ///< ranks of the group that get the result; empty: all
  bool type_check = true;            ///< as in IterateOptions
};

/// The same state with whole tensors (torch 2.13, torch/distributed/_state_dict_utils.py,
/// _gather_state_dict).
///
/// A DTensor becomes a Tensor of its global shape: what its mesh's ranks hold, as redistribute() to
/// Replicate and to_local() give it. Each replica (Replicate dimensions) is gathered from its own
/// ranks. Addends (Partial) are reduced in the order of the mesh's ranks, in the type that
/// accumulator_dtype() names, and rounded once; PyTorch rounds at every mesh dimension. Any mesh
/// and any placements: where a placement has two readings, the local shapes of all ranks decide
/// (decide_cut_order()); so they do where ranks do not count upwards, else their order in the
/// process groups does, as in full_tensor(). On a rank outside the mesh the local tensor stays. A
/// ShardedTensor becomes whole as in all_gather_sharded_tensor().
///
/// What is whole already is shared with `state`: plain tensors, and DTensors that no mesh dimension
/// of more than one rank cuts or sums. What is gathered is new, contiguous memory.
///
/// @return on a rank not in ranks_only an empty dict where `state` is one, else None
/// Memory: the results; on ranks not in ranks_only none of the whole tensors. Besides, for all
/// tensors together, at most what two of the largest take, and 4 MiB: nothing for tensors cut along
/// dimension 0 alone, which are received where they belong. What all ranks say of their tensors
/// takes some 100 bytes a tensor and rank.
Result<Value> gather_state_dict(const Value& state, ProcessGroup& group,
                                const GatherOptions& options = {});

/// The whole of a ShardedTensor, on all ranks, in new memory (torch 2.13, _state_dict_utils.py,
/// _all_gather_sharded_tensor).
///
/// PyTorch takes the ranks' first shards for equal chunks of dimension 0. Here each shard goes
/// where its metadata says: any dimension, any sizes, any number on a rank, once it is proven that
/// they cover the tensor exactly once.
///
/// @param device  "cpu"
Result<Tensor> all_gather_sharded_tensor(const ShardedTensor& tensor, ProcessGroup& group,
                                         const std::string& device = "cpu");

}  // namespace shardkit
