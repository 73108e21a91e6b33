// The walk over two trees, and what makes two tensors alike.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <unordered_map>

#include "shardkit/state/pair_walk_internal.h"

namespace shardkit::internal {
namespace {

std::string joined(const std::vector<Placement>& placements) {
  std::string text;
  for (const Placement& placement : placements)
    text += (text.empty() ? "" : ", ") + to_string(placement);
  return "[" + text + "]";
}

// The kinds that PairWalk itself keeps apart.
bool is_structural(const Value& value) {
  return value.get_if<Dict>() || value.get_if<List>() || value.get_if<Tuple>() || is_tensor(value);
}

bool is_same(const ShardMetadata& a, const ShardMetadata& b) {
  return a.box == b.box && a.rank == b.rank;
}

std::string shard_text(const ShardMetadata& shard) {
  return fmt::format("{} on rank {}", to_string(shard.box), shard.rank);
}

std::optional<std::string> whole_difference(const ShardedTensor& a, const ShardedTensor& b) {
  if (a.dtype != b.dtype)
    return fmt::format("{} against {}", torch_name(a.dtype), torch_name(b.dtype));
  if (a.shape != b.shape)
    return fmt::format("global shape {} against {}", to_string(a.shape), to_string(b.shape));
  return std::nullopt;
}

std::optional<std::string> shards_difference(const ShardedTensor& a, const ShardedTensor& b) {
  if (a.shards.size() != b.shards.size())
    return fmt::format("{} shards against {}", a.shards.size(), b.shards.size());
  for (std::size_t i = 0; i < a.shards.size(); ++i)
    if (!is_same(a.shards[i], b.shards[i]))
      return fmt::format("shard {} is {} against {}", i, shard_text(a.shards[i]),
                         shard_text(b.shards[i]));
  return std::nullopt;
}

std::optional<std::string> sharded_difference(const ShardedTensor& a, const ShardedTensor& b) {
  if (auto what = whole_difference(a, b)) return what;
  if (a.local_shards.size() != b.local_shards.size())
    return fmt::format("{} local shards against {}", a.local_shards.size(), b.local_shards.size());
  for (std::size_t i = 0; i < a.local_shards.size(); ++i) {
    const auto& [of_a, tensor_a] = a.local_shards[i];
    const auto& [of_b, tensor_b] = b.local_shards[i];
    if (!is_same(of_a, of_b))
      return fmt::format("local shard {} is {} against {}", i, shard_text(of_a), shard_text(of_b));
    if (auto what = tensor_difference(tensor_a, tensor_b))
      return fmt::format("local shard {}: {}", i, *what);
  }
  return shards_difference(a, b);
}

// Each text with its length before it, so that joining them stays unambiguous.
struct Fingerprint {
  static std::string framed(const std::string& text) {
    return fmt::format("{}:{}", text.size(), text);
  }
  static std::string all(const std::vector<Value>& items) {
    std::string text;
    for (const Value& item : items) text += framed(fingerprint(item));
    return text;
  }
  static std::string sorted(std::vector<std::string> texts) {
    std::sort(texts.begin(), texts.end());
    std::string text;
    for (const std::string& one : texts) text += framed(one);
    return text;
  }
  static std::string tensor(const Tensor& v) {
    return fmt::format("t{} {} {} {} {}", static_cast<int>(v.dtype), to_string(v.shape),
                       to_string(v.strides), v.offset,
                       reinterpret_cast<std::uintptr_t>(v.storage.get()));
  }

  std::string operator()(None) const { return "n"; }
  std::string operator()(bool v) const { return v ? "T" : "F"; }
  std::string operator()(std::int64_t v) const { return fmt::format("i{}", v); }
  std::string operator()(const BigInt& v) const { return "I" + v.bytes; }
  std::string operator()(double v) const {
    return fmt::format("f{}", std::bit_cast<std::uint64_t>(v));
  }
  std::string operator()(const std::string& v) const { return "s" + v; }
  std::string operator()(const Bytes& v) const { return "b" + v.data; }
  std::string operator()(const List& v) const { return "[" + all(v.items); }
  std::string operator()(const Tuple& v) const { return "(" + all(v.items); }
  std::string operator()(const Set& v) const {
    std::vector<std::string> texts;
    for (const Value& item : v.items) texts.push_back(fingerprint(item));
    return "S" + sorted(std::move(texts));
  }
  std::string operator()(const Dict& v) const {
    std::vector<std::string> texts;
    for (const auto& [key, item] : v.items)
      texts.push_back(framed(fingerprint(key)) + fingerprint(item));
    return "{" + sorted(std::move(texts));
  }
  std::string operator()(const Tensor& v) const { return tensor(v); }
  std::string operator()(const DTensor& v) const {
    return fmt::format("D{} {}", tensor(v.local),
                       reinterpret_cast<std::uintptr_t>(v.sharding.get()));
  }
  std::string operator()(const ShardedTensor& v) const {
    std::string text = fmt::format("H{} {}", static_cast<int>(v.dtype), to_string(v.shape));
    for (const auto& shard : v.local_shards)
      text += framed(shard_text(shard.metadata)) + framed(tensor(shard.tensor));
    for (const ShardMetadata& shard : v.shards) text += framed(shard_text(shard));
    return text;
  }
  std::string operator()(const Opaque& v) const {
    return "O" + framed(v.class_name) + all(v.state);
  }
};

}  // namespace

std::string shown_key(const Value& key) {
  const auto text = key_text(key);
  return text.ok() ? *text : fmt::format("<{}>", kind_name(key));
}

std::string shown_place(const StatePath& path) {
  return path.parts.empty() ? "the root" : to_string(path);
}

std::string fingerprint(const Value& value) { return std::visit(Fingerprint(), value.variant()); }

std::optional<std::string> sharding_difference(const Sharding& a, const Sharding& b) {
  if (a.mesh != b.mesh && !(*a.mesh == *b.mesh))
    return fmt::format("mesh {} {} against {} {}", a.mesh->device_type(), to_string(*a.mesh),
                       b.mesh->device_type(), to_string(*b.mesh));
  if (a.placements != b.placements)
    return fmt::format("placements {} against {}", joined(a.placements), joined(b.placements));
  if (a.shard_order != b.shard_order) return "another order of sharding";
  if (a.shape != b.shape)
    return fmt::format("global shape {} against {}", to_string(a.shape), to_string(b.shape));
  return std::nullopt;
}

std::optional<std::string> tensor_difference(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype)
    return fmt::format("{} against {}", torch_name(a.dtype), torch_name(b.dtype));
  if (a.shape != b.shape)
    return fmt::format("shape {} against {}", to_string(a.shape), to_string(b.shape));
  return std::nullopt;
}

std::optional<std::string> form_difference(const Value& a, const Value& b) {
  if (const auto* tensor = a.get_if<Tensor>())
    return tensor_difference(*tensor, *b.get_if<Tensor>());
  if (const auto* sharded = a.get_if<ShardedTensor>())
    return sharded_difference(*sharded, *b.get_if<ShardedTensor>());
  const auto& of_a = *a.get_if<DTensor>();
  const auto& of_b = *b.get_if<DTensor>();
  if (of_a.sharding != of_b.sharding)
    if (auto what = sharding_difference(*of_a.sharding, *of_b.sharding)) return what;
  if (auto what = tensor_difference(of_a.local, of_b.local)) return "local " + *what;
  return std::nullopt;
}

std::optional<std::string> metadata_difference(const ShardedTensor& a, const ShardedTensor& b) {
  if (auto what = whole_difference(a, b)) return what;
  return shards_difference(a, b);
}

std::vector<const Tensor*> local_tensors(const Value& value) {
  if (const auto* tensor = value.get_if<Tensor>()) return {tensor};
  if (const auto* dtensor = value.get_if<DTensor>()) return {&dtensor->local};
  std::vector<const Tensor*> tensors;
  for (const auto& shard : value.get_if<ShardedTensor>()->local_shards)
    tensors.push_back(&shard.tensor);
  return tensors;
}

bool PairWalk::differ(std::string what) {
  difference_ = Difference{path_, std::move(what)};
  return false;
}

bool PairWalk::walk(const Value& a, const Value& b) {
  const bool same_kind = kind_name(a) == kind_name(b);
  if (!same_kind && (is_structural(a) || is_structural(b)))
    return differ(fmt::format("{} against {}", kind_name(a), kind_name(b)));
  if (const auto* dict = a.get_if<Dict>()) return walk_dicts(*dict, *b.get_if<Dict>());
  if (const auto* list = a.get_if<List>()) return walk_items(list->items, b.get_if<List>()->items);
  if (const auto* tuple = a.get_if<Tuple>())
    return walk_items(tuple->items, b.get_if<Tuple>()->items);
  return leaf(a, b);
}

bool PairWalk::walk_items(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return differ(fmt::format("{} items against {}", a.size(), b.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    path_.parts.emplace_back(static_cast<std::int64_t>(i));
    if (!walk(a[i], b[i])) return false;
    path_.parts.pop_back();
  }
  return true;
}

bool PairWalk::walk_dicts(const Dict& a, const Dict& b) {
  std::unordered_map<std::string, const Value*> partners;
  for (const auto& [key, value] : b.items) partners.emplace(fingerprint(key), &value);
  // All keys first: a missing one says more than what differs below another.
  std::vector<const Value*> found;
  for (const auto& [key, value] : a.items) {
    const auto partner = partners.find(fingerprint(key));
    if (partner == partners.end())
      return differ(fmt::format("the key \"{}\" ({}) is missing on the other side", shown_key(key),
                                kind_name(key)));
    found.push_back(partner->second);
    partners.erase(partner);
  }
  if (a.items.size() != b.items.size()) {
    for (const auto& [key, value] : b.items)
      if (partners.contains(fingerprint(key)))
        return differ(fmt::format("the key \"{}\" ({}) is only on the other side", shown_key(key),
                                  kind_name(key)));
    return differ("a key comes twice on the other side");
  }
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    path_.parts.emplace_back(shown_key(a.items[i].first));
    if (!walk(a.items[i].second, *found[i])) return false;
    path_.parts.pop_back();
  }
  return true;
}

}  // namespace shardkit::internal
