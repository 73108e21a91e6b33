// iterate_state_dict(): the hub of functions on state dicts: one function a kind of tensor.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/state/state_path.h"
#include "shardkit/state/value.h"

namespace shardkit {

struct IterateOptions {
  /// Handed to the functions; whose rank `ranks_only` speaks of. May be null without ranks_only.
  ProcessGroup* group = nullptr;
  /// Where the functions are to work, handed to them. Tensors here are in CPU memory: anything but
  /// "cpu" is kUnsupported.
  std::string device = "cpu";
  /// Demand that every result is in CPU memory. What is there already is not copied, as in PyTorch.
  /// Ignored with a companion.
  bool cpu_offload = false;
  /// A state dict with the results' structure. They are copied into its tensors, as
  /// copy_state_dict() has it, and these returned in their place.
  const Value* companion = nullptr;
  /// The ranks of the group that get the result; empty: all. The functions are called on all. Other
  /// ranks get an empty dict where the state is a dict, else None; their companion stays as it is.
  std::vector<int> ranks_only = {};
  /// Sets and objects of other classes (Opaque) are refused; false copies them with all they hold.
  bool type_check = true;
  /// PyTorch's flag for copies into a companion. Copies from memory to memory are done when the
  /// call returns, whatever it says.
  bool non_blocking = true;
};

/// What a function learns beside the tensor.
struct IterateContext {
  const StatePath& path;
  ProcessGroup* group;
  const std::string& device;
};

/// Returns what takes the tensor's place: any value.
template <class T>
using TensorFunction = std::function<Result<Value>(const T&, const IterateContext&)>;

struct TensorFunctions {
  TensorFunction<ShardedTensor> sharded_tensor;
  TensorFunction<DTensor> dtensor;
  TensorFunction<Tensor> tensor;
};

/// The function that keeps a tensor as it is.
template <class T>
Result<Value> identity_func(const T& tensor, const IterateContext&) {
  return Value(tensor);
}

/// Walks a state and rebuilds it: each tensor is replaced by what the function for its kind
/// returns; dicts, lists and tuples keep their order, plain values stay (torch 2.13,
/// torch/distributed/_state_dict_utils.py, _iterate_state_dict).
///
/// This function itself talks to no other rank. Functions that do must see to it that all ranks
/// call them, in one order: JointForms tells.
///
/// @return a new tree, which shares with the old one what the functions kept
/// @error what a function returns, the path added. kUnsupported a set or Opaque with type_check, or
///        the device; kInvalidArgument ranks_only without a group or with a rank outside it, a
///        result that is not in memory with cpu_offload, and, with the detail CompanionMismatch and
///        its path, a companion of another structure, which is checked before it is written to
Result<Value> iterate_state_dict(const Value& state, const TensorFunctions& functions,
                                 const IterateOptions& options = {});

}  // namespace shardkit
