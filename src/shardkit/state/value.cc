#include "shardkit/state/value.h"

#include <algorithm>
#include <array>

namespace shardkit {

std::string_view kind_name(const Value& value) {
  constexpr std::array<std::string_view, std::variant_size_v<Value::Variant>> kNames{
      "None",  "bool", "int",  "int",    "float",   "str",           "bytes", "list",
      "tuple", "set",  "dict", "Tensor", "DTensor", "ShardedTensor", "object"};
  return kNames[value.variant().index()];
}

bool is_tensor(const Value& value) {
  return value.get_if<Tensor>() || value.get_if<DTensor>() || value.get_if<ShardedTensor>();
}

bool holds_tensor(const Value& value) {
  const auto any = [](const auto& items) {
    return std::any_of(items.begin(), items.end(), holds_tensor);
  };
  if (is_tensor(value)) return true;
  if (const auto* list = value.get_if<List>()) return any(list->items);
  if (const auto* tuple = value.get_if<Tuple>()) return any(tuple->items);
  if (const auto* set = value.get_if<Set>()) return any(set->items);
  if (const auto* opaque = value.get_if<Opaque>()) return any(opaque->state);
  if (const auto* dict = value.get_if<Dict>())
    return std::any_of(dict->items.begin(), dict->items.end(),
                       [](const auto& item) { return holds_tensor(item.second); });
  return false;
}

const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [k, v] : dict.items)
    if (const auto* text = k.get_if<std::string>(); text && *text == key) return &v;
  return nullptr;
}

}  // namespace shardkit
