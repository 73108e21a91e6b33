// Traversal by PyTorch's two rules.
#include "shardkit/state/traverse.h"

namespace shardkit {
namespace {

// A list that DCP keeps as one leaf.
bool is_whole_list(const List& list) {
  for (const Value& item : list.items) {
    if (is_tensor(item) || item.get_if<Dict>()) return false;
    if (const auto* inner = item.get_if<List>(); inner && !is_whole_list(*inner)) return false;
  }
  return true;
}

class Traversal {
 public:
  Traversal(TraverseRule rule, const LeafVisitor& visitor) : rule_(rule), visitor_(visitor) {}

  Status enter(const Dict& dict) {
    for (const auto& [key, value] : dict.items) {
      auto text = key_text(key);
      if (!text.ok()) return std::move(text).error().of_tensor(to_string(path_));
      path_.parts.emplace_back(*std::move(text));
      SHARDKIT_TRY(visit(value));
      path_.parts.pop_back();
    }
    return {};
  }

 private:
  Status enter(const std::vector<Value>& items) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      path_.parts.emplace_back(static_cast<std::int64_t>(i));
      SHARDKIT_TRY(visit(items[i]));
      path_.parts.pop_back();
    }
    return {};
  }

  Status visit(const Value& value) {
    if (is_leaf(value, rule_)) return visitor_(path_, value);
    if (const auto* dict = value.get_if<Dict>()) return enter(*dict);
    if (const auto* list = value.get_if<List>()) return enter(list->items);
    return enter(value.get_if<Tuple>()->items);
  }

  TraverseRule rule_;
  const LeafVisitor& visitor_;
  StatePath path_;
};

}  // namespace

bool is_leaf(const Value& value, TraverseRule rule) {
  if (value.get_if<Dict>()) return false;
  const auto* list = value.get_if<List>();
  if (rule == TraverseRule::kCheckpoint) return !list || is_whole_list(*list);
  return !list && !value.get_if<Tuple>();
}

Status traverse_state_dict(const Dict& state, TraverseRule rule, const LeafVisitor& visitor) {
  return Traversal(rule, visitor).enter(state);
}

}  // namespace shardkit
