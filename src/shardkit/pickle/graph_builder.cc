// Making objects, within the limits.
#include "shardkit/pickle/graph_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "shardkit/pickle/text.h"

namespace shardkit::pickle {

GraphBuilder::GraphBuilder(std::string data, const ParseOptions& options) : options_(options) {
  graph_.data_ = std::move(data);
  graph_.base_offset_ = options.base_offset;
}

Error GraphBuilder::error(ErrorCode code, std::string what, std::uint64_t offset) const {
  return Error(code, "pickle: " + std::move(what)).at_offset(options_.base_offset + offset);
}

Result<ObjectId> GraphBuilder::make(Kind kind, std::size_t at, std::uint64_t payload) {
  if (++made_ > options_.max_objects) return too_many(at);
  graph_.objects_.push_back({.kind = kind,
                             .offset = static_cast<std::uint32_t>(at),
                             .a = static_cast<std::uint32_t>(payload),
                             .b = static_cast<std::uint32_t>(payload >> 32)});
  return static_cast<ObjectId>(graph_.objects_.size() - 1);
}

/// Notes that `parent` holds `children`. The depth of a container that grows after it was put into
/// another is not passed on; picklers fill containers from the inside out, and who walks a graph
/// must bound its depth anyway, because of cycles.
Status GraphBuilder::holds(ObjectId parent, std::span<const ObjectId> children, std::size_t at) {
  std::uint16_t depth = graph_.objects_[parent].depth;
  for (const ObjectId child : children) {
    const std::uint16_t below = Graph::is_leaf(child) ? 0 : graph_.objects_[child].depth;
    if (below >= options_.max_depth) return too_deep(at);
    depth = std::max<std::uint16_t>(depth, static_cast<std::uint16_t>(below + 1));
  }
  graph_.objects_[parent].depth = depth;
  return {};
}

/// Lists lie in one pool, each in one piece. One that grows when others lie behind it moves to the
/// end, with room to double: what moves in all is linear in what was added. A pickle spends a byte
/// or more on each item, so that the pool stays far below 2^32 items.
void GraphBuilder::append(Graph::Object& object, std::span<const ObjectId> added) {
  std::vector<ObjectId>& pool = graph_.items_;
  const bool constructed = object.kind == Kind::kCall || object.kind == Kind::kNew;
  Graph::Made* made = constructed ? &graph_.constructions_[object.a] : nullptr;
  std::uint32_t& first = constructed ? made->first_item : object.a;
  std::uint32_t& count = constructed ? made->item_count : object.b;
  const std::size_t wanted = count + added.size();
  const std::size_t room = object.roomy ? std::bit_ceil(count) : count;
  if (count == 0) first = static_cast<std::uint32_t>(pool.size());
  if (first + count == pool.size()) {
    pool.insert(pool.end(), added.begin(), added.end());
    object.roomy = false;
  } else {
    if (wanted > room) {
      const std::size_t moved = pool.size();
      pool.resize(moved + std::bit_ceil(wanted), kNoObject);
      std::copy_n(pool.begin() + first, count, pool.begin() + static_cast<std::ptrdiff_t>(moved));
      first = static_cast<std::uint32_t>(moved);
      object.roomy = true;
    }
    std::copy(added.begin(), added.end(), pool.begin() + first + count);
  }
  count = static_cast<std::uint32_t>(wanted);
}

Error GraphBuilder::too_many(std::size_t at) const {
  return error(ErrorCode::kLimit, "too many objects", at)
      .expected(fmt::format("at most {}", options_.max_objects));
}

Error GraphBuilder::too_deep(std::size_t at) const {
  return error(ErrorCode::kLimit, "objects nest too deep", at)
      .expected(fmt::format("at most {} levels", options_.max_depth));
}

Result<ObjectId> GraphBuilder::integer(std::int64_t value, std::size_t at) {
  return make(Kind::kInt, at, static_cast<std::uint64_t>(value));
}

Result<ObjectId> GraphBuilder::real(double value, std::size_t at) {
  return make(Kind::kFloat, at, std::bit_cast<std::uint64_t>(value));
}

Result<ObjectId> GraphBuilder::big_integer(std::string_view twos_complement, std::size_t at) {
  const std::string_view shortest = shortest_twos_complement(twos_complement);
  if (shortest.size() <= 8) return integer(small_integer(shortest), at);
  return decoded_text(Kind::kBigInt, shortest, at);
}

Result<ObjectId> GraphBuilder::text_leaf(Kind kind, std::string_view text, std::size_t at) {
  if (kind == Kind::kString && !is_utf8(text))
    return error(ErrorCode::kCorrupt, "a string is not valid UTF-8", at);
  return leaf(at);
}

Result<ObjectId> GraphBuilder::text(Kind kind, std::string_view text, std::size_t at) {
  if (kind == Kind::kString && !is_utf8(text))
    return error(ErrorCode::kCorrupt, "a string is not valid UTF-8", at);
  const auto begin = static_cast<std::uint64_t>(text.data() - graph_.data_.data());
  return make(kind, at, std::uint64_t{text.size()} << 32 | begin);
}

Result<ObjectId> GraphBuilder::decoded_text(Kind kind, std::string_view text, std::size_t at) {
  if (kind == Kind::kString && !is_utf8(text))
    return error(ErrorCode::kCorrupt, "a string is not valid UTF-8", at);
  const std::uint64_t begin = graph_.decoded_.size();
  graph_.decoded_ += text;
  SHARDKIT_ASSIGN(const ObjectId id, make(kind, at, std::uint64_t{text.size()} << 32 | begin));
  graph_.objects_[id].decoded = true;
  return id;
}

Result<ObjectId> GraphBuilder::tuple(std::span<const ObjectId> items, std::size_t at) {
  return filled(Kind::kTuple, items, at);
}

Result<ObjectId> GraphBuilder::container(Kind kind, std::size_t at) { return make(kind, at); }

Result<ObjectId> GraphBuilder::frozen_set(std::span<const ObjectId> items, std::size_t at) {
  return filled(Kind::kFrozenSet, items, at);
}

Result<ObjectId> GraphBuilder::filled(Kind kind, std::span<const ObjectId> items, std::size_t at) {
  SHARDKIT_ASSIGN(const ObjectId id, make(kind, at));
  append(graph_.objects_[id], items);
  SHARDKIT_TRY(holds(id, items, at));
  return id;
}

Result<ObjectId> GraphBuilder::global(std::string_view module, std::string_view name,
                                      std::size_t at) {
  std::string key = fmt::format("{}\n{}", module, name);
  auto found = global_of_name_.find(key);
  if (found == global_of_name_.end()) {
    if (!options_.allow || !options_.allow(module, name))
      return error(ErrorCode::kUnsafe, "a class or function that is not on the allow list", at)
          .found(fmt::format("'{}' of module '{}'", name, module));
    found =
        global_of_name_.emplace(std::move(key), static_cast<std::uint32_t>(graph_.globals_.size()))
            .first;
    graph_.globals_.push_back({std::string(module), std::string(name)});
  }
  return make(Kind::kGlobal, at, found->second);
}

Result<ObjectId> GraphBuilder::persistent(ObjectId id, std::size_t at) {
  SHARDKIT_ASSIGN(const ObjectId made, make(Kind::kPersistentId, at, id));
  SHARDKIT_TRY(holds(made, std::span(&id, 1), at));
  return made;
}

Result<ObjectId> GraphBuilder::construct(Kind kind, ObjectId callee, ObjectId args, ObjectId kwargs,
                                         std::size_t at) {
  // A call may make a callee: protocol 2 writes a nested class as getattr(outer, 'Inner').
  const Kind callee_kind = graph_.kind(callee);
  if (callee_kind != Kind::kGlobal && callee_kind != Kind::kCall)
    return error(ErrorCode::kCorrupt, "a call of something that is no global", at);
  if (graph_.kind(args) != Kind::kTuple)
    return error(ErrorCode::kCorrupt, "call arguments that are no tuple", at);
  if (kwargs != kNoObject && graph_.kind(kwargs) != Kind::kDict)
    return error(ErrorCode::kCorrupt, "keyword arguments that are no dict", at);
  SHARDKIT_ASSIGN(const ObjectId id, make(kind, at, graph_.constructions_.size()));
  graph_.constructions_.push_back({.how = {.callee = callee, .args = args, .kwargs = kwargs}});
  const ObjectId children[] = {callee, args, kwargs};
  SHARDKIT_TRY(holds(id, std::span(children).first(kwargs == kNoObject ? 2 : 3), at));
  return id;
}

Status GraphBuilder::add_items(ObjectId target, std::span<const ObjectId> items, std::size_t at) {
  switch (graph_.kind(target)) {
    case Kind::kList:
    case Kind::kSet: break;
    case Kind::kCall:
    case Kind::kNew:
      if (graph_.construction(target).holds_pairs)
        return error(ErrorCode::kCorrupt, "items added to an object that holds pairs", at);
      break;
    default: return error(ErrorCode::kCorrupt, "items added to an object that takes none", at);
  }
  append(graph_.objects_[target], items);
  return holds(target, items, at);
}

Status GraphBuilder::add_pairs(ObjectId target, std::span<const ObjectId> pairs, std::size_t at) {
  if (pairs.size() % 2 != 0) return error(ErrorCode::kCorrupt, "a key without a value", at);
  switch (graph_.kind(target)) {
    case Kind::kDict: break;
    case Kind::kCall:
    case Kind::kNew: {
      Graph::Made& made = graph_.constructions_[graph_.objects_[target].a];
      if (!made.how.holds_pairs && made.item_count > 0)
        return error(ErrorCode::kCorrupt, "pairs set in an object that holds items", at);
      made.how.holds_pairs = true;
      break;
    }
    default: return error(ErrorCode::kCorrupt, "pairs set in an object that takes none", at);
  }
  append(graph_.objects_[target], pairs);
  return holds(target, pairs, at);
}

Status GraphBuilder::set_state(ObjectId target, ObjectId state, std::size_t at) {
  const Kind kind = graph_.kind(target);
  if (kind == Kind::kGlobal)
    return error(ErrorCode::kUnsafe, "an attempt to change a global", at)
        .found(fmt::format("'{}' of module '{}'", graph_.global(target).name,
                           graph_.global(target).module));
  if (kind != Kind::kCall && kind != Kind::kNew)
    return error(ErrorCode::kCorrupt, "a state for an object that takes none", at);
  Construction& made = graph_.constructions_[graph_.objects_[target].a].how;
  if (made.state != kNoObject) return error(ErrorCode::kCorrupt, "a second state", at);
  made.state = state;
  return holds(target, std::span(&state, 1), at);
}

Graph GraphBuilder::finish(ObjectId root) && {
  graph_.root_ = root;
  return std::move(graph_);
}

}  // namespace shardkit::pickle
