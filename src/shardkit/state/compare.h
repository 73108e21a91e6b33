// Comparing two trees: by their bytes, and by their form alone.
#pragma once

#include <optional>
#include <string>

#include "shardkit/base/result.h"
#include "shardkit/state/state_path.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// Where two trees differ, and in what.
struct Difference {
  StatePath path;
  std::string what;  ///< "float32 against float16"; the first tree's side comes first
};

// Both functions walk the first tree in its order and return the first difference, or nothing.
// Containers must be of one kind (a list is no tuple), with as many items; dicts must have the
// same keys, of the same kind, in any order, as in Python. Tensors must agree in dtype and shape;
// in memory layout they need not. DTensors also in mesh (rank array and device type), placements,
// order of sharding and global shape; ShardedTensors in shape, dtype and the metadata of all
// shards. Objects of other classes (Opaque) must be of one class, and their states are compared as
// lists. Nothing is ever written. REQUIRES: DTensors have a sharding with a mesh.

/// Whether two state dicts are alike in all but values: plain values must be of the same kind
/// (an int of any size is an int), tensors may lie anywhere.
///
/// PyTorch's _check_state_dict_similarity (torch 2.13, torch/distributed/_state_dict_utils.py)
/// returns no place, copies the first state's tensors into the second, takes a list for a tuple and
/// any plain value for another, and fails on a tensor against an int.
std::optional<Difference> check_state_dict_similarity(const Value& state, const Value& compared);

/// Whether two trees are equal in structure and in every value. Tensors and floats are compared bit
/// by bit: NaNs of the same bits are equal, 0.0 and -0.0 are not. Sets are equal in any order. Two
/// tensors without bytes (meta) are equal if their form is.
///
/// @error kInvalidArgument a tensor lies in a file; its path is named
///        kCorrupt a view leaves its storage
/// Reads both tensors front to back; makes no copy.
Result<std::optional<Difference>> find_difference(const Value& a, const Value& b);

}  // namespace shardkit
