// Flattening, the skeleton, and the two ways back.
#include "shardkit/state/flatten.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace shardkit {
namespace {

// The tree with each leaf replaced by its number in traversal order.
class SkeletonMaker {
 public:
  explicit SkeletonMaker(TraverseRule rule) : rule_(rule) {}

  Dict make(const Dict& dict) {
    Dict made;
    made.items.reserve(dict.items.size());
    for (const auto& [key, value] : dict.items) made.items.emplace_back(key, make(value));
    return made;
  }

 private:
  Value make(const Value& value) {
    if (is_leaf(value, rule_)) return next_++;
    if (const auto* dict = value.get_if<Dict>()) return make(*dict);
    if (const auto* list = value.get_if<List>()) return List{make(list->items)};
    return Tuple{make(value.get_if<Tuple>()->items)};
  }

  std::vector<Value> make(const std::vector<Value>& items) {
    std::vector<Value> made;
    made.reserve(items.size());
    for (const Value& item : items) made.push_back(make(item));
    return made;
  }

  TraverseRule rule_;
  std::int64_t next_ = 0;
};

using Leaves = std::vector<const Value*>;

// The skeleton with its leaves put back.
Value fill(const Value& skeleton, const Leaves& leaves);

std::vector<Value> fill(const std::vector<Value>& items, const Leaves& leaves) {
  std::vector<Value> filled;
  filled.reserve(items.size());
  for (const Value& item : items) filled.push_back(fill(item, leaves));
  return filled;
}

Dict fill(const Dict& dict, const Leaves& leaves) {
  Dict filled;
  filled.items.reserve(dict.items.size());
  for (const auto& [key, value] : dict.items) filled.items.emplace_back(key, fill(value, leaves));
  return filled;
}

Value fill(const Value& skeleton, const Leaves& leaves) {
  if (const auto* dict = skeleton.get_if<Dict>()) return fill(*dict, leaves);
  if (const auto* list = skeleton.get_if<List>()) return List{fill(list->items, leaves)};
  if (const auto* tuple = skeleton.get_if<Tuple>()) return Tuple{fill(tuple->items, leaves)};
  return *leaves[static_cast<std::size_t>(*skeleton.get_if<std::int64_t>())];
}

// A tree grown path by path: a node is a leaf, a dict, a list, or not decided yet.
class Node {
 public:
  // The child that `part` leads to, made where there is none; null if this node is a leaf or a
  // container of the other kind.
  Node* child(const StatePath::Part& part) {
    if (leaf_) return nullptr;
    if (const auto* key = std::get_if<std::string>(&part)) {
      if (!items_.empty()) return nullptr;
      const auto [place, is_new] = places_.emplace(*key, fields_.size());
      if (is_new) fields_.emplace_back(*key, std::make_unique<Node>());
      return fields_[place->second].second.get();
    }
    if (!fields_.empty()) return nullptr;
    const auto index = static_cast<std::size_t>(std::get<std::int64_t>(part));
    if (index >= items_.size()) items_.resize(index + 1);
    if (!items_[index]) items_[index] = std::make_unique<Node>();
    return items_[index].get();
  }

  bool set_leaf(const Value& value) {
    if (leaf_ || !fields_.empty() || !items_.empty()) return false;
    leaf_ = &value;
    return true;
  }

  Value build() const {
    if (leaf_) return *leaf_;
    if (items_.empty()) return build_dict();
    List list;
    for (const auto& item : items_) list.items.push_back(item ? item->build() : Value());
    return list;
  }

  Dict build_dict() const {
    Dict dict;
    for (const auto& [key, node] : fields_) dict.items.emplace_back(key, node->build());
    return dict;
  }

 private:
  const Value* leaf_ = nullptr;
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> fields_;
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<std::unique_ptr<Node>> items_;
};

Status set_element(Node& root, const StatePath& path, const Value& value) {
  Node* node = &root;
  for (const StatePath::Part& part : path.parts) {
    node = node->child(part);
    if (!node) break;
  }
  if (node && node->set_leaf(value)) return {};
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("the path {} leads through another leaf or another kind of container",
                           tuple_text(path)));
}

}  // namespace

std::optional<std::size_t> FlattenMapping::find(std::string_view key) const {
  const auto found = places_.find(std::string(key));
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

Result<FlatState> flatten_state_dict(const Dict& state, TraverseRule rule) {
  FlatState made;
  FlattenMapping& mapping = made.mapping;
  SHARDKIT_TRY(traverse_state_dict(
      state, rule, [&made, &mapping](const StatePath& path, const Value& value) -> Status {
        std::string key = to_string(path);
        const auto [place, is_new] = mapping.places_.emplace(key, mapping.entries_.size());
        if (!is_new)
          return Error(
              ErrorCode::kInvalidArgument,
              fmt::format("two values have the flat key \"{}\": {} and {}", key,
                          tuple_text(mapping.entries_[place->second].path), tuple_text(path)));
        made.flat.items.emplace_back(key, value);
        mapping.entries_.push_back({std::move(key), path});
        return {};
      }));
  mapping.skeleton_ = SkeletonMaker(rule).make(state);
  return made;
}

Result<Dict> unflatten_state_dict(const Dict& flat, const FlattenMapping& mapping) {
  std::vector<std::size_t> order;
  Leaves leaves(mapping.entries().size(), nullptr);
  for (const auto& [key, value] : flat.items) {
    const auto* text = key.get_if<std::string>();
    if (!text)
      return Error(ErrorCode::kInvalidArgument, "a key of a flat state dict is no text")
          .found(kind_name(key));
    const auto place = mapping.find(*text);
    if (!place)
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("the mapping has no flat key \"{}\"", *text));
    if (leaves[*place])
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("the flat key \"{}\" comes twice", *text));
    leaves[*place] = &value;
    order.push_back(*place);
  }
  if (order.size() == leaves.size()) return fill(mapping.skeleton(), leaves);
  Node root;
  for (const std::size_t place : order)
    SHARDKIT_TRY(set_element(root, mapping.entries()[place].path, *leaves[place]));
  return root.build_dict();
}

}  // namespace shardkit
