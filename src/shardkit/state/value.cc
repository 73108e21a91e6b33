#include "shardkit/state/value.h"

#include <array>

namespace shardkit {

std::string_view kind_name(const Value& value) {
  constexpr std::array<std::string_view, std::variant_size_v<Value::Variant>> kNames{
      "None", "bool", "int",  "int",    "float",   "str",           "bytes", "list",
      "tuple", "set", "dict", "Tensor", "DTensor", "ShardedTensor", "object"};
  return kNames[value.variant().index()];
}

bool is_tensor(const Value& value) {
  return value.get_if<Tensor>() || value.get_if<DTensor>() || value.get_if<ShardedTensor>();
}

const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [k, v] : dict.items)
    if (const auto* text = k.get_if<std::string>(); text && *text == key) return &v;
  return nullptr;
}

}  // namespace shardkit
