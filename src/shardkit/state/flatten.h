// flatten_state_dict() and unflatten_state_dict(): a nested state dict as one flat dict, and back.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/state/state_path.h"
#include "shardkit/state/traverse.h"
#include "shardkit/state/value.h"

namespace shardkit {

struct FlatState;

/// Which path each flat key stands for, and the skeleton of the state that was flattened. Made by
/// flatten_state_dict() alone, so that paths and skeleton can be believed.
class FlattenMapping {
 public:
  struct Entry {
    std::string key;
    StatePath path;
  };

  /// One for each leaf, in the state's order: PyTorch's FLATTEN_MAPPING.
  const std::vector<Entry>& entries() const { return entries_; }
  /// The place of a flat key in entries(). Constant time.
  std::optional<std::size_t> find(std::string_view key) const;
  /// The state itself, each leaf replaced by its place in entries(), an int. It keeps what keys and
  /// paths lose: whether a key was an int, a list a tuple, and the containers without a leaf.
  const Dict& skeleton() const { return skeleton_; }

 private:
  friend Result<FlatState> flatten_state_dict(const Dict& state, TraverseRule rule);

  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> places_;
  Dict skeleton_;
};

struct FlatState {
  Dict flat;  ///< each leaf under its path's text; tensors share their storage with the state's
  FlattenMapping mapping;
};

/// Flattens a state: {"a": {"b": [t, u]}} becomes {"a.b.0": t, "a.b.1": u}.
///
/// Flat keys and paths are exactly PyTorch's (torch 2.13): with kEveryContainer those of
/// _flatten_state_dict in torch/distributed/_state_dict_utils.py, with kCheckpoint those of
/// flatten_state_dict in torch/distributed/checkpoint/_nested_dict.py, which are the keys in a DCP
/// checkpoint. The skeleton is an addition.
///
/// @error kInvalidArgument two leaves have the same flat key; the message shows both paths
///        kUnsupported a key has no text (key_text())
/// Linear in the tree; no tensor byte is copied.
Result<FlatState> flatten_state_dict(const Dict& state, TraverseRule rule);

/// Rebuilds a state.
///
/// If `flat` has all keys of the mapping, the result has the skeleton's structure and order,
/// whatever the order in `flat`: unflatten(flatten(x)) is x. PyTorch instead returns string keys,
/// lists for tuples, and nothing of containers without a leaf.
///
/// If it has a part of the keys, the result is PyTorch's (set_element in _traverse.py): only
/// containers on the way to a leaf, keys of text, no tuples, in the order of `flat`; a list reaches
/// to its last known element and has None for those before it that are missing.
///
/// @param flat  values by flat key; any value may stand there, not only the one that was flattened
/// @error kInvalidArgument the mapping lacks a key, a key is no text or comes twice, or paths of a
///        part contradict each other ({1: x, "1": {...}}; PyTorch fails or loses one)
/// Linear in `flat` and, with all keys, the skeleton.
Result<Dict> unflatten_state_dict(const Dict& flat, const FlattenMapping& mapping);

}  // namespace shardkit
