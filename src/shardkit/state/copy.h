// copy_state_dict() and offload_state_dict_to_cpu(): from one state dict in memory to another.
#pragma once

#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/state/state_path.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// Copies the elements of every tensor of `from` into the tensor of `to` at the same place (torch
/// 2.13, torch/distributed/_state_dict_utils.py, _copy_state_dict).
///
/// The states must have the same structure, as check_state_dict_similarity() has it, but for plain
/// values, which are not compared: `to` may hold any at that place, and keeps it. All is checked
/// before the first byte is written. PyTorch copies until it meets what does not fit, and converts
/// dtypes and repeats elements where they differ.
///
/// @param to  its tensors are written in place, with their own strides. Where two of them share
///            memory the later one's elements stay.
/// @param type_check  false: sets and objects of other classes are copied with all they hold, as
///            create_cpu_state_dict() does, and `to` may hold anything at their place
/// @return    a new tree: `from`'s structure, order and plain values with the tensors of `to`
/// @error kInvalidArgument the structures differ: with the detail CompanionMismatch, and its path
///        and what differs in the text; a tensor lies in a file or has no bytes; a tensor of `to`
///        repeats elements (expanded), or overlaps one that is to be read, also one that is copied
///        into itself
///        kUnsupported `from` holds a set or an Opaque, and type_check is true
///        kCorrupt a view leaves its storage
/// Copying a tensor into itself does nothing. One thread; no memory but for the trees.
Result<Value> copy_state_dict(const Value& from, const Value& to, bool type_check = true);

struct OffloadedState {
  Value state;
  std::vector<StatePath> shared;  ///< tensors whose memory is that of the original, in its order
};

/// The same state with all tensors in CPU memory (torch 2.13, torch/distributed/
/// _state_dict_utils.py, _offload_state_dict_to_cpu; type_check as by default).
///
/// As in PyTorch, a tensor that is in CPU memory already is not copied: writing to it writes to the
/// original. Memory here is the CPU's, so these are all tensors: `shared` names each. For a copy,
/// create_cpu_state_dict() and copy_state_dict().
///
/// @error kInvalidArgument a tensor lies in a file or has no bytes (meta); kUnsupported the state
///        holds a set or an Opaque; kCorrupt a view leaves its storage. The path is named.
Result<OffloadedState> offload_state_dict_to_cpu(const Value& state);

}  // namespace shardkit
