// tree_text(): a tree of values as text that shows everything, for comparing trees in tests.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "shardkit/state/value.h"

namespace shardkit::testing {

inline std::string join(const std::vector<std::int64_t>& numbers, const char* separator) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? "" : separator) + std::to_string(number);
  return text;
}

/// Where a storage lies in its file, and its size.
inline std::string storage_text(const Storage& storage) {
  std::string text = storage.is_meta() ? "meta" : "memory";
  if (storage.file()) text = "file@" + std::to_string(storage.file()->offset);
  return text + "+" + std::to_string(storage.bytes());
}

/// "float32[4, 3]/[3, 1]+0 of file@832+48": dtype, shape, strides, offset, storage.
inline std::string tensor_text(const Tensor& tensor) {
  return std::string(torch_name(tensor.dtype)) + to_string(tensor.shape) + "/" +
         to_string(tensor.strides) + "+" + std::to_string(tensor.offset) + " of " +
         storage_text(*tensor.storage);
}

inline std::string shard_text(const ShardMetadata& shard) {
  return to_string(shard.box.offset) + "+" + to_string(shard.box.shape) + "@rank" +
         std::to_string(shard.rank);
}

/// "[2, 2] 0 1 2 3 ddp fsdp": shape, ranks, names.
inline std::string mesh_text(const DeviceMesh& mesh) {
  std::string text = to_string(mesh.shape()) + " " + join(mesh.ranks(), " ");
  for (const std::string& name : mesh.dim_names()) text += " " + name;
  return text;
}

inline std::string sharding_text(const Sharding& sharding) {
  std::string text = to_string(sharding.shape) + " on " + sharding.mesh->device_type() + " " +
                     mesh_text(*sharding.mesh) + ":";
  for (const Placement& placement : sharding.placements) text += " " + to_string(placement);
  for (const ShardOrder& entry : sharding.shard_order)
    text += " order " + std::to_string(entry.tensor_dim) + ":" + join(entry.mesh_dims, ",");
  return text;
}

struct TreePrinter {
  static std::string hex(const std::string& data) {
    std::string text;
    for (const char c : data) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
      text += digits;
    }
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
  std::string operator()(double v) const {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", v);
    return text;
  }
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
    std::string text = "ShardedTensor(" + std::string(torch_name(v.dtype)) + to_string(v.shape);
    for (const auto& shard : v.local_shards)
      text += "; local " + shard_text(shard.metadata) + " " + tensor_text(shard.tensor);
    for (const ShardMetadata& shard : v.shards) text += "; " + shard_text(shard);
    return text + ")";
  }
  std::string operator()(const Opaque& v) const { return v.class_name + "<" + list(v.state) + ">"; }
};

inline std::string tree_text(const Value& value) { return TreePrinter().print(value); }

}  // namespace shardkit::testing
