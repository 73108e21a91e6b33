// TreeBuilder: turns a pickle's objects into the tree of Values that torch.load would return.
#pragma once

#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/state/value.h"
#include "shardkit/torch_pt/dtensor_reader.h"
#include "shardkit/torch_pt/objects.h"
#include "shardkit/torch_pt/tensor_reader.h"

namespace shardkit {

/// Walks the objects from the root. Shared objects become copies (tensors keep sharing their
/// storage); the memory of the whole tree is charged to the objects' budget, and depth is bounded,
/// so that sharing and cycles cannot make it grow without end.
class TreeBuilder {
 public:
  TreeBuilder(PtObjects& objects, TensorReader& tensors)
      : objects_(objects), tensors_(tensors), dtensors_(objects, tensors) {}

  /// @error kCorrupt objects that torch would not have written, a dict with one key twice;
  ///        kUnsupported a kind of tensor that is not read; kLimit. Names the tensor by the dict
  ///        keys that lead to it.
  Result<Value> build();

 private:
  Result<Value> value(ObjectId id);
  /// The same, of a Value that is charged already.
  Result<Value> charged_value(ObjectId id);
  Result<Value> object(ObjectId id);
  Result<Value> call(const PtCall& call, ObjectId id);
  Result<Value> tensor_call(PtCall call, ObjectId id);
  Result<Value> wrapper(GlobalRole type, std::span<const ObjectId> args, ObjectId state,
                        ObjectId id);
  Result<Value> dict_call(const PtCall& call, ObjectId id);
  Result<Value> bytes_call(const PtCall& call, ObjectId id);
  Result<Value> opaque(std::string class_name, ObjectId id);
  Result<Value> storage(ObjectId id);
  /// Both charge for all elements before they make room for them; `at` is what holds them.
  Result<std::vector<Value>> values(std::span<const ObjectId> items, ObjectId at);
  Status add_pairs(std::span<const ObjectId> pairs, Dict& dict, ObjectId at);
  Status check_keys(const Dict& dict, ObjectId at) const;

  PtObjects& objects_;
  TensorReader& tensors_;
  DTensorReader dtensors_;
  std::vector<ObjectId> path_;  // dict keys from the root to where the walk is
  int depth_ = 0;
};

}  // namespace shardkit
