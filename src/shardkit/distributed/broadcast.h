// broadcast_tensors() and broadcast_state_dict(): rank 0 has the whole, each rank gets its boxes.
#pragma once

#include <span>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/distributed/tensor_info.h"
#include "shardkit/state/value.h"

namespace shardkit {

// Both fill the tensors of every rank's local state from those that rank 0 *of the group* holds.
// Collective. What is filled and how, which errors there are, and what is required of memory, is as
// in distribute.h; only that here the elements travel.
//
// A rank gets the boxes that it keeps and no other byte, where PyTorch sends each whole tensor to
// all: keys that a rank lacks cost it no byte (pipeline stages). Elements go from rank 0's tensor
// to the local one without a copy between, where they are one run in both; else they are packed on
// rank 0, or spread out from a buffer where they arrive.
//
// Memory beside the new tensors: on rank 0 packed boxes, at most as many as the largest tensor has
// bytes; elsewhere one local tensor, if any is not contiguous; and the later ones of tied tensors.
// Time: three exchanges, of which the first two carry some 100 bytes a tensor and rank, one call of
// the group for each tensor that any rank has, and a last small exchange.
//
// When a rank is late or gone while elements travel, or tied tensors turn out to get different
// elements, tensors in memory hold unspecified bytes on all ranks, and nothing else of the local
// states has changed.

/// Fills the tensors of `local` under the given names (torch 2.13, torch/distributed/
/// _state_dict_utils.py, _broadcast_tensors).
///
/// @param full     on rank 0: a tensor for each name; not looked at elsewhere
/// @param tensors  the same on all ranks; names that `local` lacks are skipped
/// @error kInvalidArgument a rank has other `tensors`, or rank 0's full tensors are other ones
///        kNotFound a name is not in `full`; else as above
Status broadcast_tensors(const Dict& full, std::span<const NamedTensorInfo> tensors, Dict& local,
                         ProcessGroup& group);

struct BroadcastOptions {
  /// Removes from `local` what rank 0 does not have.
  bool strict = false;
  /// Leaves the tensors in CPU memory. All memory of this library is: it is there for those who
  /// come from PyTorch, and changes nothing.
  bool cpu_offload = false;
};

/// Fills `local` from all of rank 0's `full` (torch 2.13, _broadcast_state_dict; there rank 0 of
/// the job, whatever the group). Names, shapes, dtypes, tensors without dimensions and all values
/// that are no tensors go first, in one message.
///
/// A value that is no tensor replaces what `local` has under its key, and tensors within it are new
/// ones. A DTensor without dimensions stays one, where PyTorch puts a plain tensor in its place.
/// Keys that `local` lacks are not added.
///
/// @param full  on rank 0: text keys; not looked at elsewhere
Status broadcast_state_dict(const Dict& full, Dict& local, ProcessGroup& group,
                            const BroadcastOptions& options = {});

}  // namespace shardkit
