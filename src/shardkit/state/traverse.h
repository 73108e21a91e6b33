// traverse_state_dict(): visits the leaves of a state dict, each with its path.
#pragma once

#include <functional>

#include "shardkit/base/result.h"
#include "shardkit/state/state_path.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// PyTorch has two rules for what is a leaf, each with its own traverse, flatten and unflatten, and
/// both are in use: the helpers of state dicts have the one, checkpoints on disk the other. They
/// give different keys for the same state, so every call says which one it means.
enum class TraverseRule {
  /// Dicts, lists and tuples are entered, everything else is a leaf; what is empty vanishes
  /// (torch 2.13, torch/distributed/_state_dict_utils.py, _traverse_state_dict; verl has a copy).
  kEveryContainer,
  /// What distributed checkpoints (DCP) have used since 2.4: dicts are entered; a list is entered
  /// if it holds a tensor, a dict, or a list that is entered itself, else the whole list is one
  /// leaf, an empty one too; a tuple is always a leaf (torch 2.13,
  /// torch/distributed/checkpoint/_traverse.py, traverse_state_dict with its default
  /// keep_traversing).
  kCheckpoint,
};

/// Whether a value below the root is a leaf. Linear in the lists directly within each other.
bool is_leaf(const Value& value, TraverseRule rule);

/// Called with a leaf and its path, in the state's order; an error ends the traversal.
using LeafVisitor = std::function<Status(const StatePath&, const Value&)>;

/// Visits all leaves. The root is entered, whatever the rule; every dict key becomes its text in
/// the path (the int 0 is "0"), every index stays a number, as in PyTorch.
///
/// As deep in calls as the tree. Copies no value.
///
/// @error kUnsupported a key has no text (key_text()); what the visitor returns
Status traverse_state_dict(const Dict& state, TraverseRule rule, const LeafVisitor& visitor);

}  // namespace shardkit
