// PairWalk: two trees side by side, for comparing them and for copying one into the other.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/state/compare.h"
#include "shardkit/state/state_path.h"
#include "shardkit/state/value.h"

namespace shardkit::internal {

/// Walks two trees as long as they have the same containers, and hands over their leaves.
class PairWalk {
 public:
  virtual ~PairWalk() = default;

  /// False: stopped, at difference() or for a reason of the subclass; not to be called again.
  bool walk(const Value& a, const Value& b);
  std::optional<Difference>& difference() { return difference_; }

 protected:
  /// Two leaves; if one of them is a dict, list, tuple or tensor, the other is of the same kind.
  /// False stops the walk.
  virtual bool leaf(const Value& a, const Value& b) = 0;

  bool walk_items(const std::vector<Value>& a, const std::vector<Value>& b);
  /// Notes a difference at the current place; false.
  bool differ(std::string what);
  const StatePath& path() const { return path_; }

 private:
  bool walk_dicts(const Dict& a, const Dict& b);

  StatePath path_;
  std::optional<Difference> difference_;
};

/// The key's part of a path; "<tuple>" and the like where key_text() has none. For messages.
std::string shown_key(const Value& key);

/// to_string(path), or "the root".
std::string shown_place(const StatePath& path);

/// A text that is the same for two plain values exactly if they are of one kind and equal; tensors
/// are equal to themselves alone. Floats count bit by bit; sets and dicts in any order.
std::string fingerprint(const Value& value);

/// What differs in dtype, shapes, mesh, placements and shards' metadata; nothing if no more than
/// the elements can. REQUIRES: two tensors of one kind.
std::optional<std::string> form_difference(const Value& a, const Value& b);

/// What differs in dtype and shape.
std::optional<std::string> tensor_difference(const Tensor& a, const Tensor& b);

/// What differs in mesh, placements, order of sharding and global shape. REQUIRES: both have a mesh
std::optional<std::string> sharding_difference(const Sharding& a, const Sharding& b);

/// What differs in dtype, global shape and the metadata of all shards: in what ranks have in
/// common.
std::optional<std::string> metadata_difference(const ShardedTensor& a, const ShardedTensor& b);

/// The local tensors of a Tensor, DTensor or ShardedTensor, in order.
std::vector<const Tensor*> local_tensors(const Value& value);

}  // namespace shardkit::internal
