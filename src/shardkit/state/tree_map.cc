// The walk that rebuilds a tree.
#include <utility>

#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/state/tree_map_internal.h"

namespace shardkit::internal {

Result<Value> TreeMap::map(const Value& value) {
  if (const auto* dict = value.get_if<Dict>()) return map_dict(*dict);
  if (const auto* list = value.get_if<List>()) {
    SHARDKIT_ASSIGN(auto items, map_items(list->items));
    return Value(List{std::move(items)});
  }
  if (const auto* tuple = value.get_if<Tuple>()) {
    SHARDKIT_ASSIGN(auto items, map_items(tuple->items));
    return Value(Tuple{std::move(items)});
  }
  const bool is_object = value.get_if<Set>() || value.get_if<Opaque>();
  if (!is_object && !is_tensor(value)) return value;
  auto made = is_object ? object(value) : tensor(value);
  if (!made.ok()) return std::move(made).error().of_tensor(shown_place(path_));
  return made;
}

Result<Value> TreeMap::map_contents(const Value& object) {
  if (const auto* set = object.get_if<Set>()) {
    SHARDKIT_ASSIGN(auto items, map_items(set->items));
    return Value(Set{std::move(items)});
  }
  const auto& opaque = *object.get_if<Opaque>();
  SHARDKIT_ASSIGN(auto state, map_items(opaque.state));
  return Value(Opaque{opaque.class_name, std::move(state)});
}

Result<Value> TreeMap::map_dict(const Dict& dict) {
  Dict made;
  made.items.reserve(dict.items.size());
  for (const auto& [key, item] : dict.items) {
    path_.parts.emplace_back(shown_key(key));
    SHARDKIT_ASSIGN(Value mapped, map(item));
    path_.parts.pop_back();
    made.items.emplace_back(key, std::move(mapped));
  }
  return Value(std::move(made));
}

Result<std::vector<Value>> TreeMap::map_items(const std::vector<Value>& items) {
  std::vector<Value> made;
  made.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    path_.parts.emplace_back(static_cast<std::int64_t>(i));
    SHARDKIT_ASSIGN(Value mapped, map(items[i]));
    path_.parts.pop_back();
    made.push_back(std::move(mapped));
  }
  return made;
}

Error unexpected_object(const Value& value) {
  const auto* object = value.get_if<Opaque>();
  return Error(ErrorCode::kUnsupported, "a value of this kind is not copied")
      .found(object ? std::string_view(object->class_name) : kind_name(value));
}

}  // namespace shardkit::internal
