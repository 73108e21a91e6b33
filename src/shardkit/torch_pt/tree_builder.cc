#include "shardkit/torch_pt/tree_builder.h"

#include <fmt/format.h>

#include <unordered_set>

#include "shardkit/torch_pt/sharded_tensor_reader.h"

namespace shardkit {
namespace {

using pickle::Kind;

constexpr int kMaxDepth = 500;

/// UTF-8 of code points below 256 as bytes; nothing if there are others.
std::optional<std::string> latin1(std::string_view utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<std::uint8_t>(utf8[i]);
    if (lead < 0x80) {
      bytes += utf8[i];
    } else if (lead <= 0xc3 && i + 1 < utf8.size()) {
      const auto low = static_cast<std::uint8_t>(utf8[++i]);
      bytes += static_cast<char>((lead & 0x03) << 6 | (low & 0x3f));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

bool is_hashable(const Value& key) {
  return !key.get_if<List>() && !key.get_if<Dict>() && !key.get_if<Set>();
}

}  // namespace

Result<Value> TreeBuilder::build() { return value(objects_.graph().root()); }

Result<Value> TreeBuilder::value(ObjectId id) {
  SHARDKIT_TRY(objects_.charge(sizeof(Value), id));
  return charged_value(id);
}

Result<Value> TreeBuilder::charged_value(ObjectId id) {
  const pickle::Graph& graph = objects_.graph();
  switch (graph.kind(id)) {
    case Kind::kNone: return Value(None{});
    case Kind::kBool: return Value(graph.boolean(id));
    case Kind::kInt: return Value(graph.integer(id));
    case Kind::kFloat: return Value(graph.real(id));
    case Kind::kString:
      SHARDKIT_TRY(objects_.charge(graph.text(id).size(), id));
      return Value(std::string(graph.text(id)));
    case Kind::kBytes:
      SHARDKIT_TRY(objects_.charge(graph.text(id).size(), id));
      return Value(Bytes{std::string(graph.text(id))});
    case Kind::kBigInt:
      SHARDKIT_TRY(objects_.charge(graph.text(id).size(), id));
      return Value(BigInt{std::string(graph.text(id))});
    case Kind::kGlobal: {
      std::string name = objects_.full_name(id);
      SHARDKIT_TRY(objects_.charge(name.size(), id));
      return Value(Opaque{std::move(name), {}});
    }
    default: break;
  }
  if (depth_ >= kMaxDepth)
    return objects_.error(ErrorCode::kLimit, "objects nest too deep, or contain themselves", id)
        .expected(fmt::format("at most {} levels", kMaxDepth));
  ++depth_;
  auto made = object(id);
  --depth_;
  return made;
}

Result<Value> TreeBuilder::object(ObjectId id) {
  const pickle::Graph& graph = objects_.graph();
  switch (graph.kind(id)) {
    case Kind::kTuple: {
      SHARDKIT_ASSIGN(auto items, values(graph.items(id), id));
      return Value(Tuple{std::move(items)});
    }
    case Kind::kList: {
      SHARDKIT_ASSIGN(auto items, values(graph.items(id), id));
      return Value(List{std::move(items)});
    }
    case Kind::kSet:
    case Kind::kFrozenSet: {
      SHARDKIT_ASSIGN(auto items, values(graph.items(id), id));
      return Value(Set{std::move(items)});
    }
    case Kind::kDict: {
      Dict dict;
      SHARDKIT_TRY(add_pairs(graph.items(id), dict, id));
      SHARDKIT_TRY(check_keys(dict, id));
      return Value(std::move(dict));
    }
    case Kind::kPersistentId: return storage(id);
    default: break;
  }
  const auto named = objects_.as_call(id);
  if (named) return call(*named, id);
  // What getattr returned was called: a nested class, as check_calls() has made sure.
  const auto args = objects_.as_call(graph.construction(id).callee)->args;
  return opaque(fmt::format("{}.{}", objects_.full_name(args[0]), graph.text(args[1])), id);
}

Result<Value> TreeBuilder::call(const PtCall& call, ObjectId id) {
  const pickle::Graph& graph = objects_.graph();
  switch (call.role) {
    case GlobalRole::kDict:
    case GlobalRole::kDefaultDict: return dict_call(call, id);
    case GlobalRole::kList:
    case GlobalRole::kTuple:
    case GlobalRole::kSet: {
      if (call.args.size() > 1)
        return objects_.unexpected("a container's arguments", "one sequence", id);
      std::vector<Value> items;
      if (!call.args.empty()) {
        SHARDKIT_ASSIGN(const auto given,
                        objects_.sequence(call.args[0], "a container's elements"));
        SHARDKIT_ASSIGN(items, values(given, call.args[0]));
      }
      const pickle::Construction& made = graph.construction(id);
      if (made.holds_pairs) return objects_.unexpected("a container", "elements, not pairs", id);
      SHARDKIT_ASSIGN(auto more, values(graph.items(id), id));
      std::move(more.begin(), more.end(), std::back_inserter(items));
      if (call.role == GlobalRole::kList) return Value(List{std::move(items)});
      if (call.role == GlobalRole::kTuple) return Value(Tuple{std::move(items)});
      return Value(Set{std::move(items)});
    }
    case GlobalRole::kBytes:
    case GlobalRole::kEncode: return bytes_call(call, id);
    case GlobalRole::kGetattr:  // an enum member
      return Value(Opaque{
          fmt::format("{}.{}", objects_.full_name(call.args[0]), graph.text(call.args[1])), {}});
    case GlobalRole::kRebuildTensor:
    case GlobalRole::kRebuildTensorV2:
    case GlobalRole::kRebuildTensorV3:
    case GlobalRole::kRebuildMetaTensor:
    case GlobalRole::kRebuildParameter:
    case GlobalRole::kRebuildFromType:
    case GlobalRole::kRebuildWrapperSubclass:
    case GlobalRole::kUnsupportedTensor: return tensor_call(call, id);
    default: return opaque(objects_.full_name(call.callee), id);
  }
}

/// Wrappers that only say which Python class a tensor has come off, from the outside in: each one's
/// arguments were made before it, so this ends.
Result<Value> TreeBuilder::tensor_call(PtCall call, ObjectId id) {
  while (true) {
    const auto wrong = [&] {
      return objects_.unexpected(objects_.full_name(call.callee), "its arguments", id);
    };
    if (TensorReader::is_rebuild(call.role)) {
      SHARDKIT_ASSIGN(Tensor tensor, tensors_.rebuild(call, id));
      return Value(std::move(tensor));
    }
    if (call.role == GlobalRole::kRebuildParameter) {  // (data, requires_grad, hooks[, state])
      if (call.args.size() < 3 || call.args.size() > 4) return wrong();
      return value(call.args[0]);
    }
    if (call.role != GlobalRole::kRebuildFromType)
      return objects_.error(ErrorCode::kUnsupported, "a kind of tensor that is not supported", id)
          .found(objects_.full_name(call.callee));
    // _rebuild_from_type(_v2)(function, class, arguments, state)
    if (call.args.size() != 4 || objects_.graph().kind(call.args[2]) != Kind::kTuple)
      return wrong();
    const GlobalRole function = objects_.meaning(call.args[0]).role;
    const auto args = objects_.graph().items(call.args[2]);
    const GlobalRole type = objects_.meaning(call.args[1]).role;
    if (function == GlobalRole::kRebuildWrapperSubclass)
      return wrapper(type, args, call.args[3], id);
    if (type != GlobalRole::kTensorClass)
      return objects_.error(ErrorCode::kUnsupported, "a kind of tensor that is not supported", id)
          .found(objects_.graph().kind(call.args[1]) == Kind::kGlobal
                     ? objects_.full_name(call.args[1])
                     : std::string("no class"));
    call = {function, call.args[0], args};
  }
}

/// A tensor that only wraps others: `args` are (class, dtype, size, ...), `state` holds the rest.
Result<Value> TreeBuilder::wrapper(GlobalRole type, std::span<const ObjectId> args, ObjectId state,
                                   ObjectId id) {
  if (args.size() < 3 || objects_.meaning(args[0]).role != type)
    return objects_.unexpected("a wrapper tensor", "its class, dtype and size", id);
  SHARDKIT_ASSIGN(const Dims size, objects_.dims(args[2], "a wrapper tensor's size"));
  if (type == GlobalRole::kDTensor) {
    SHARDKIT_ASSIGN(auto parts, dtensors_.read(size, state));
    SHARDKIT_ASSIGN(Value local, value(parts.local));
    auto* tensor = local.get_if<Tensor>();
    if (!tensor) return objects_.unexpected("a DTensor's local tensor", "a tensor", parts.local);
    return Value(DTensor{std::move(*tensor), std::move(parts.sharding)});
  }
  if (type == GlobalRole::kShardedTensor) {
    SHARDKIT_ASSIGN(
        ShardedTensor tensor,
        read_sharded_tensor(objects_, state, [this](ObjectId data) { return value(data); }));
    if (tensor.shape != size)
      return objects_.error(ErrorCode::kCorrupt, "a ShardedTensor has two global shapes", id)
          .expected(to_string(size))
          .found(to_string(tensor.shape));
    return Value(std::move(tensor));
  }
  return objects_.error(ErrorCode::kUnsupported, "a kind of tensor that is not supported", id)
      .found(objects_.graph().kind(args[0]) == Kind::kGlobal ? objects_.full_name(args[0])
                                                             : std::string("no class"));
}

/// OrderedDict() and its kin: pairs as an argument, or set one by one afterwards. Their attributes
/// (_metadata of a state dict) and a defaultdict's factory are not kept.
Result<Value> TreeBuilder::dict_call(const PtCall& call, ObjectId id) {
  const pickle::Graph& graph = objects_.graph();
  Dict dict;
  if (call.args.size() > 1) return objects_.unexpected("a dict's arguments", "at most one", id);
  if (call.role == GlobalRole::kDict && !call.args.empty()) {
    if (graph.kind(call.args[0]) == Kind::kDict) {
      SHARDKIT_TRY(add_pairs(graph.items(call.args[0]), dict, call.args[0]));
    } else {
      SHARDKIT_ASSIGN(const auto pairs, objects_.sequence(call.args[0], "a dict's pairs"));
      for (const ObjectId pair : pairs) {
        SHARDKIT_ASSIGN(const auto both, objects_.sequence(pair, "a dict's pair"));
        if (both.size() != 2) return objects_.unexpected("a dict's pair", "key and value", pair);
        SHARDKIT_TRY(add_pairs(both, dict, pair));
      }
    }
  }
  const pickle::Construction& made = graph.construction(id);
  if (!made.holds_pairs && !graph.items(id).empty())
    return objects_.unexpected("a dict", "pairs, not elements", id);
  SHARDKIT_TRY(add_pairs(graph.items(id), dict, id));
  SHARDKIT_TRY(check_keys(dict, id));
  return Value(std::move(dict));
}

/// bytes(), bytes(b'...'), bytearray(b'...'), and text with its encoding, which is always latin1.
Result<Value> TreeBuilder::bytes_call(const PtCall& call, ObjectId id) {
  const pickle::Graph& graph = objects_.graph();
  if (call.args.empty()) return Value(Bytes{});
  if (call.args.size() == 1) {
    SHARDKIT_ASSIGN(Value given, value(call.args[0]));
    if (!given.get_if<Bytes>()) return objects_.unexpected("bytes", "bytes", call.args[0]);
    return given;
  }
  SHARDKIT_ASSIGN(const auto text, objects_.string(call.args[0], "encoded bytes"));
  SHARDKIT_ASSIGN(const auto encoding, objects_.string(call.args[1], "an encoding"));
  if (call.args.size() > 2 || (encoding != "latin1" && encoding != "latin-1"))
    return objects_.error(ErrorCode::kUnsupported, "bytes in another encoding than latin1", id)
        .found(encoding);
  SHARDKIT_TRY(objects_.charge(text.size(), id));
  auto bytes = latin1(graph.text(call.args[0]));
  if (!bytes) return objects_.error(ErrorCode::kCorrupt, "bytes with a character above 255", id);
  return Value(Bytes{*std::move(bytes)});
}

/// Constructor arguments, then keyword arguments, state, and what was appended or set.
Result<Value> TreeBuilder::opaque(std::string class_name, ObjectId id) {
  const pickle::Construction& made = objects_.graph().construction(id);
  SHARDKIT_TRY(objects_.charge(class_name.size(), id));
  Opaque opaque{std::move(class_name), {}};
  SHARDKIT_ASSIGN(opaque.state, values(objects_.graph().items(made.args), made.args));
  for (const ObjectId part : {made.kwargs, made.state}) {
    if (part == pickle::kNoObject) continue;
    SHARDKIT_ASSIGN(Value held, value(part));
    opaque.state.push_back(std::move(held));
  }
  if (made.holds_pairs) {
    Dict dict;
    SHARDKIT_TRY(add_pairs(objects_.graph().items(id), dict, id));
    opaque.state.push_back(std::move(dict));
  } else if (!objects_.graph().items(id).empty()) {
    SHARDKIT_ASSIGN(auto items, values(objects_.graph().items(id), id));
    opaque.state.push_back(List{std::move(items)});
  }
  return Value(std::move(opaque));
}

/// A storage by itself, not seen through a tensor: its class, and all of it as a tensor.
Result<Value> TreeBuilder::storage(ObjectId id) {
  SHARDKIT_ASSIGN(Tensor whole, tensors_.bare_storage(id));
  SHARDKIT_ASSIGN(const auto parts,
                  objects_.sequence(objects_.graph().persistent_id(id), "a persistent id"));
  Opaque opaque{objects_.full_name(parts[1]), {}};
  opaque.state.push_back(std::move(whole));
  return Value(std::move(opaque));
}

Result<std::vector<Value>> TreeBuilder::values(std::span<const ObjectId> items, ObjectId at) {
  SHARDKIT_TRY(objects_.charge(items.size() * sizeof(Value), at));
  std::vector<Value> made;
  made.reserve(items.size());
  for (const ObjectId item : items) {
    SHARDKIT_ASSIGN(Value held, charged_value(item));
    made.push_back(std::move(held));
  }
  return made;
}

Status TreeBuilder::add_pairs(std::span<const ObjectId> pairs, Dict& dict, ObjectId at) {
  const pickle::Graph& graph = objects_.graph();
  SHARDKIT_TRY(objects_.charge(pairs.size() * sizeof(Value), at));
  if (dict.items.empty()) dict.items.reserve(pairs.size() / 2);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    SHARDKIT_ASSIGN(Value key, charged_value(pairs[i]));
    if (!is_hashable(key))
      return objects_.unexpected("a dict's key", "a hashable object", pairs[i]);
    path_.push_back(pairs[i]);
    auto held = charged_value(pairs[i + 1]);
    if (!held.ok()) {
      std::string name;
      for (const ObjectId part : path_) {
        if (!name.empty()) name += '.';
        if (graph.kind(part) == Kind::kString)
          name += graph.text(part);
        else if (graph.kind(part) == Kind::kInt)
          name += std::to_string(graph.integer(part));
        else
          name += '?';
      }
      return std::move(held).error().of_tensor(name);
    }
    path_.pop_back();
    dict.items.emplace_back(std::move(key), *std::move(held));
  }
  return {};
}

/// In Python a later value would silently replace an earlier one; no dict was ever pickled so.
Status TreeBuilder::check_keys(const Dict& dict, ObjectId at) const {
  std::unordered_set<std::string_view> texts;
  std::unordered_set<std::int64_t> numbers;
  if (dict.items.size() > 1 && dict.items.front().first.get_if<std::string>())
    texts.reserve(dict.items.size());
  for (const auto& [key, held] : dict.items) {
    const auto* text = key.get_if<std::string>();
    const auto* number = key.get_if<std::int64_t>();
    if ((text && !texts.insert(*text).second) || (number && !numbers.insert(*number).second))
      return objects_.error(ErrorCode::kCorrupt, "a dict holds one key twice", at)
          .found(text ? fmt::format("'{}'", *text) : std::to_string(*number));
  }
  return {};
}

}  // namespace shardkit
