#include "shardkit/torch_pt/objects.h"

#include <fmt/format.h>

namespace shardkit {
namespace {

using pickle::Kind;

std::string_view kind_text(Kind kind) {
  switch (kind) {
    case Kind::kNone: return "None";
    case Kind::kBool: return "a bool";
    case Kind::kInt: return "an int";
    case Kind::kBigInt: return "an int beyond 64 bits";
    case Kind::kFloat: return "a float";
    case Kind::kString: return "a str";
    case Kind::kBytes: return "bytes";
    case Kind::kTuple: return "a tuple";
    case Kind::kList: return "a list";
    case Kind::kSet:
    case Kind::kFrozenSet: return "a set";
    case Kind::kDict: return "a dict";
    case Kind::kGlobal: return "a global";
    case Kind::kPersistentId: return "a storage";
    case Kind::kCall:
    case Kind::kNew: return "an object";
  }
  return "an object";
}

}  // namespace

std::optional<ObjectId> PtAttributes::find(std::string_view name) const {
  // A later value replaces an earlier one, as setting an attribute twice does.
  for (auto it = named_.rbegin(); it != named_.rend(); ++it)
    if (it->first == name) return it->second;
  return std::nullopt;
}

PtObjects::PtObjects(const pickle::Graph& graph, std::uint64_t budget_bytes)
    : graph_(graph), budget_(budget_bytes) {
  for (const pickle::Global& global : graph.globals())
    meanings_.push_back(meaning_of_global(global.module, global.name));
}

Status PtObjects::check_calls() const {
  for (ObjectId id = 0; id < graph_.non_leaves(); ++id) {
    const Kind kind = graph_.kind(id);
    if (kind != Kind::kCall && kind != Kind::kNew) continue;
    const pickle::Construction& made = graph_.construction(id);
    if (graph_.kind(made.callee) == Kind::kCall) {
      if (is_a(made.callee, GlobalRole::kGetattr)) continue;
      return error(ErrorCode::kUnsafe, "a call of what another call returned", id);
    }
    if (meaning(made.callee).role != GlobalRole::kGetattr) continue;
    const auto args = graph_.items(made.args);
    const bool named = args.size() == 2 && graph_.kind(args[0]) == Kind::kGlobal &&
                       graph_.kind(args[1]) == Kind::kString;
    if (!named || !is_allowed_attribute(meaning(args[0]).role, graph_.global(args[0]).name,
                                        graph_.text(args[1])))
      return error(ErrorCode::kUnsafe, "getattr of something that is not on the allow list", id)
          .found(named ? fmt::format("'{}' of {}", graph_.text(args[1]), full_name(args[0]))
                       : std::string("other arguments than a class and a name"));
  }
  return {};
}

Status PtObjects::charge(std::uint64_t bytes, ObjectId at) {
  if (bytes > budget_)
    return error(ErrorCode::kLimit,
                 "the pickle's objects unfold to a tree that is too large for its size", at);
  budget_ -= bytes;
  return {};
}

GlobalMeaning PtObjects::meaning(ObjectId id) const {
  if (graph_.kind(id) != Kind::kGlobal) return {};
  return meanings_[graph_.global_index(id)];
}

std::string PtObjects::full_name(ObjectId global) const {
  const pickle::Global& named = graph_.global(global);
  return fmt::format("{}.{}", canonical_module(named.module), named.name);
}

std::optional<PtCall> PtObjects::as_call(ObjectId id) const {
  const Kind kind = graph_.kind(id);
  if (kind != Kind::kCall && kind != Kind::kNew) return std::nullopt;
  const pickle::Construction& made = graph_.construction(id);
  if (graph_.kind(made.callee) != Kind::kGlobal) return std::nullopt;
  return PtCall{meaning(made.callee).role, made.callee, graph_.items(made.args)};
}

bool PtObjects::is_a(ObjectId id, GlobalRole role) const {
  const auto call = as_call(id);
  return call && call->role == role;
}

Error PtObjects::error(ErrorCode code, std::string what, ObjectId at) const {
  return Error(code, std::move(what)).at_offset(graph_.offset(at));
}

Error PtObjects::unexpected(std::string_view what, std::string_view expected, ObjectId at) const {
  const Kind kind = graph_.kind(at);
  std::string found(kind_text(kind));
  if (kind == Kind::kGlobal) found = full_name(at);
  if (kind == Kind::kTuple || kind == Kind::kList)
    found += fmt::format(" of {}", graph_.items(at).size());
  return error(ErrorCode::kCorrupt, fmt::format("{} is not what it must be", what), at)
      .expected(expected)
      .found(found);
}

Result<std::int64_t> PtObjects::integer(ObjectId id, std::string_view what) const {
  if (graph_.kind(id) != Kind::kInt) return unexpected(what, "an int of 64 bits", id);
  return graph_.integer(id);
}

Result<std::string_view> PtObjects::string(ObjectId id, std::string_view what) const {
  if (graph_.kind(id) != Kind::kString) return unexpected(what, "a str", id);
  return graph_.text(id);
}

Result<std::span<const ObjectId>> PtObjects::sequence(ObjectId id, std::string_view what) const {
  if (const auto call = as_call(id); call && call->role == GlobalRole::kTuple) {
    if (call->args.empty()) return std::span<const ObjectId>();
    id = call->args[0];
  }
  if (graph_.kind(id) != Kind::kTuple && graph_.kind(id) != Kind::kList)
    return unexpected(what, "a tuple or list", id);
  return graph_.items(id);
}

Result<std::vector<std::int64_t>> PtObjects::integers(ObjectId id, std::string_view what) const {
  SHARDKIT_ASSIGN(const auto items, sequence(id, what));
  std::vector<std::int64_t> values;
  values.reserve(items.size());
  for (const ObjectId item : items) {
    SHARDKIT_ASSIGN(const std::int64_t value, integer(item, what));
    values.push_back(value);
  }
  return values;
}

Result<Dims> PtObjects::dims(ObjectId id, std::string_view what) {
  SHARDKIT_ASSIGN(const auto items, sequence(id, what));
  if (items.size() > Dims::kMaxDims)
    return error(ErrorCode::kLimit, fmt::format("{} has too many dimensions", what), id)
        .expected(fmt::format("at most {}", Dims::kMaxDims))
        .found(std::to_string(items.size()));
  if (items.size() > Dims::kInlineDims)
    SHARDKIT_TRY(charge(items.size() * sizeof(std::int64_t), id));
  Dims dims(items.size(), 0);
  for (std::size_t d = 0; d < items.size(); ++d) {
    SHARDKIT_ASSIGN(dims[d], integer(items[d], what));
  }
  return dims;
}

Result<DType> PtObjects::dtype(ObjectId id) const {
  const GlobalMeaning named = meaning(id);
  if (named.role == GlobalRole::kUnsupportedDType)
    return error(ErrorCode::kUnsupported, "an element type that is not supported", id)
        .found(full_name(id));
  if (named.role != GlobalRole::kDType) return unexpected("a dtype", "a torch.dtype", id);
  return *named.dtype;
}

Status PtObjects::add_attributes(ObjectId dict, std::string_view what, PtAttributes& attributes) {
  if (is_none(dict)) return {};
  if (graph_.kind(dict) != Kind::kDict) return unexpected(what, "a dict of attributes", dict);
  const auto items = graph_.items(dict);
  SHARDKIT_TRY(charge(items.size() / 2 * sizeof(attributes.all().front()), dict));
  attributes.reserve(items.size() / 2);
  for (std::size_t i = 0; i < items.size(); i += 2) {
    SHARDKIT_ASSIGN(const auto name, string(items[i], "an attribute's name"));
    attributes.add(name, items[i + 1]);
  }
  return {};
}

Result<PtAttributes> PtObjects::attributes_of_state(ObjectId state, std::string_view what) {
  PtAttributes attributes;
  if (graph_.kind(state) == Kind::kTuple && graph_.items(state).size() == 2) {
    for (const ObjectId dict : graph_.items(state))
      SHARDKIT_TRY(add_attributes(dict, what, attributes));
  } else {
    SHARDKIT_TRY(add_attributes(state, what, attributes));
  }
  return attributes;
}

Result<PtAttributes> PtObjects::attributes(ObjectId id, std::string_view what) {
  const Kind kind = graph_.kind(id);
  if (kind != Kind::kNew && kind != Kind::kCall) return unexpected(what, "an object", id);
  const ObjectId state = graph_.construction(id).state;
  if (state == pickle::kNoObject) return PtAttributes();
  return attributes_of_state(state, what);
}

}  // namespace shardkit
