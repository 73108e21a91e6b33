// Value: the ordered tree that a state dict is, of plain values and tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "shardkit/layout/sharding.h"
#include "shardkit/tensor/tensor.h"

namespace shardkit {

/// A rank's part of a distributed tensor: the local view, and how the whole lies on its mesh.
struct DTensor {
  Tensor local;
  std::shared_ptr<const Sharding> sharding;  ///< often shared by the tensors of one file
};

/// Where one shard of a ShardedTensor belongs (torch/distributed/_shard/metadata.py).
struct ShardMetadata {
  Box box;                 ///< in the global tensor
  std::int64_t rank = -1;  ///< the rank that holds it; -1 where the file does not say
};

/// FSDP1's distributed tensor: shards with explicit offsets.
struct ShardedTensor {
  struct LocalShard {
    ShardMetadata metadata;
    Tensor tensor;
  };

  DType dtype = DType::kFloat32;
  Dims shape;
  std::vector<LocalShard> local_shards;
  std::vector<ShardMetadata> shards;  ///< of all ranks; empty where the file does not say
};

struct None {
  friend bool operator==(const None&, const None&) = default;
};

/// A Python int outside int64: two's complement, little-endian.
struct BigInt {
  std::string bytes;
  friend bool operator==(const BigInt&, const BigInt&) = default;
};

struct Bytes {
  std::string data;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

class Value;

struct List {
  std::vector<Value> items;
};
struct Tuple {
  std::vector<Value> items;
};
struct Set {
  std::vector<Value> items;
};

/// Key-value pairs in file order (or insertion order). Keys may be of any plain kind.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
};

/// An object of a class that shardkit knows by name only; never executed. `state` holds what the
/// file keeps of it: constructor arguments, then state, as a list.
struct Opaque {
  std::string class_name;  ///< "numpy.dtype", "_codecs.encode"
  std::vector<Value> state;
};

/// One node of the tree.
class Value {
 public:
  using Variant = std::variant<None, bool, std::int64_t, BigInt, double, std::string, Bytes, List,
                               Tuple, Set, Dict, Tensor, DTensor, ShardedTensor, Opaque>;

  Value() = default;
  template <class T>
  requires std::is_constructible_v<Variant, T&&> &&
      (!std::is_same_v<std::decay_t<T>, Value>)Value(T&& value)
      : value_(std::forward<T>(value)) {}

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }
  template <class T>
  T* get_if() {
    return std::get_if<T>(&value_);
  }

  const Variant& variant() const { return value_; }

 private:
  Variant value_;
};

/// "dict", "tuple", "DTensor", ...: the kind of a node, for messages.
std::string_view kind_name(const Value& value);

/// Whether it is a Tensor, DTensor or ShardedTensor.
bool is_tensor(const Value& value);

/// Whether it is one, or one hides anywhere below: in containers, in objects. Readers bound the
/// depth of the trees they build.
bool holds_tensor(const Value& value);

/// The value under a string key; null if there is none.
const Value* find(const Dict& dict, std::string_view key);

}  // namespace shardkit
