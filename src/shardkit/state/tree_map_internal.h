// TreeMap: rebuilds a tree with other tensors in it; the one walk of all functions that do so.
#pragma once

#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/state/state_path.h"
#include "shardkit/state/value.h"

namespace shardkit::internal {

/// Dicts, lists and tuples are rebuilt, in their order; plain values are kept.
class TreeMap {
 public:
  virtual ~TreeMap() = default;

  /// @error what the functions below return, of_tensor() the place. No longer usable then.
  Result<Value> map(const Value& value);

 protected:
  /// What takes the place of a Tensor, DTensor or ShardedTensor.
  virtual Result<Value> tensor(const Value& value) = 0;
  /// What takes the place of a set or an Opaque, which are not entered but by map_contents().
  virtual Result<Value> object(const Value& value) = 0;

  /// A set or an Opaque with each item mapped.
  Result<Value> map_contents(const Value& object);

  const StatePath& path() const { return path_; }

 private:
  Result<Value> map_dict(const Dict& dict);
  Result<std::vector<Value>> map_items(const std::vector<Value>& items);

  StatePath path_;
};

/// PyTorch's type check (torch 2.13, torch/distributed/_state_dict_utils.py, _iterate_state_dict)
/// refuses sets and objects: kUnsupported, with the kind.
Error unexpected_object(const Value& value);

}  // namespace shardkit::internal
