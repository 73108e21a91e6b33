// tree_text(): a tree of values as text that shows everything, for comparing trees in tests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "shardkit/state/value.h"

namespace shardkit::testing {

/// Where a storage lies, its size, and (in one text) which tensors share it.
inline std::string storage_text(const Storage& storage) {
  if (storage.file()) return fmt::format("file@{}+{}", storage.file()->offset, storage.bytes());
  if (storage.is_meta()) return fmt::format("meta+{}", storage.bytes());
  return fmt::format("memory+{}", storage.bytes());
}

inline std::string tensor_text(const Tensor& tensor) {
  return fmt::format("{}{}/{}+{} of {}", torch_name(tensor.dtype), to_string(tensor.shape),
                     to_string(tensor.strides), tensor.offset, storage_text(*tensor.storage));
}

inline std::string box_text(const ShardMetadata& shard) {
  return fmt::format("{}+{}@rank{}", to_string(shard.box.offset), to_string(shard.box.shape),
                     shard.rank);
}

inline std::string sharding_text(const Sharding& sharding) {
  std::string text = fmt::format("{} on {} {} ranks", to_string(sharding.shape),
                                 sharding.mesh->device_type(), to_string(sharding.mesh->shape()));
  for (const std::int64_t rank : sharding.mesh->ranks()) text += fmt::format(" {}", rank);
  for (const std::string& name : sharding.mesh->dim_names()) text += " " + name;
  text += ":";
  for (const Placement& placement : sharding.placements) text += " " + to_string(placement);
  for (const ShardOrder& entry : sharding.shard_order)
    text += fmt::format(" order {}:{}", entry.tensor_dim, fmt::join(entry.mesh_dims, ","));
  return text;
}

struct TreePrinter {
  std::string hex(const std::string& data) const {
    std::string text;
    for (const char c : data) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return text;
  }
  std::string list(const std::vector<Value>& items) const {
    std::string text;
    for (const Value& item : items) text += (text.empty() ? "" : ", ") + print(item);
    return text;
  }
  std::string print(const Value& value) const { return std::visit(*this, value.variant()); }

  std::string operator()(None) const { return "None"; }
  std::string operator()(bool v) const { return v ? "True" : "False"; }
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(const BigInt& v) const { return "int:" + hex(v.bytes); }
  std::string operator()(double v) const { return fmt::format("{:a}", v); }
  std::string operator()(const std::string& v) const { return "'" + v + "'"; }
  std::string operator()(const Bytes& v) const { return "b:" + hex(v.data); }
  std::string operator()(const List& v) const { return "[" + list(v.items) + "]"; }
  std::string operator()(const Tuple& v) const { return "(" + list(v.items) + ")"; }
  std::string operator()(const Set& v) const { return "set(" + list(v.items) + ")"; }
  std::string operator()(const Dict& v) const {
    std::string text;
    for (const auto& [key, item] : v.items)
      text += (text.empty() ? "" : ", ") + print(key) + ": " + print(item);
    return "{" + text + "}";
  }
  std::string operator()(const Tensor& v) const { return tensor_text(v); }
  std::string operator()(const DTensor& v) const {
    return "DTensor(" + tensor_text(v.local) + "; " + sharding_text(*v.sharding) + ")";
  }
  std::string operator()(const ShardedTensor& v) const {
    std::string text =
        fmt::format("ShardedTensor({}{}", torch_name(v.dtype), to_string(v.shape));
    for (const auto& shard : v.local_shards)
      text += "; local " + box_text(shard.metadata) + " " + tensor_text(shard.tensor);
    for (const ShardMetadata& shard : v.shards) text += "; " + box_text(shard);
    return text + ")";
  }
  std::string operator()(const Opaque& v) const { return v.class_name + "<" + list(v.state) + ">"; }
};

inline std::string tree_text(const Value& value) { return TreePrinter().print(value); }

}  // namespace shardkit::testing
