// GraphBuilder: makes the objects of a Graph within the limits, and adds to those that can change.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "shardkit/base/result.h"
#include "shardkit/pickle/graph.h"
#include "shardkit/pickle/parse.h"

namespace shardkit::pickle {

/// Every function that makes an object takes the offset of its opcode in the pickle, and fails with
/// kLimit if it would be one too many or nest too deep.
class GraphBuilder {
 public:
  GraphBuilder(std::string data, const ParseOptions& options);

  /// The pickle's bytes; they stay where they are.
  std::string_view data() const { return graph_.data_; }
  const Graph& graph() const { return graph_; }
  /// An error at an offset of the pickle, placed in the file.
  Error error(ErrorCode code, std::string what, std::uint64_t offset) const;

  /// The object of an opcode that Graph decodes itself; nothing is stored.
  Result<ObjectId> leaf(std::size_t at) {
    if (++made_ > options_.max_objects) return too_many(at);
    return Graph::kLeafBit | static_cast<ObjectId>(at);
  }
  /// The same for a text of this kind. @error kCorrupt a string is not UTF-8
  Result<ObjectId> text_leaf(Kind kind, std::string_view text, std::size_t at);
  Result<ObjectId> boolean(bool value, std::size_t at) { return make(Kind::kBool, at, value); }
  Result<ObjectId> integer(std::int64_t value, std::size_t at);
  Result<ObjectId> real(double value, std::size_t at);
  /// A two's complement integer of any size.
  Result<ObjectId> big_integer(std::string_view twos_complement, std::size_t at);
  /// `text` lies in data(). @error kCorrupt a string is not UTF-8
  Result<ObjectId> text(Kind kind, std::string_view text, std::size_t at);
  /// `text` is copied. @error as text()
  Result<ObjectId> decoded_text(Kind kind, std::string_view text, std::size_t at);
  Result<ObjectId> tuple(std::span<const ObjectId> items, std::size_t at);
  /// An empty kList, kSet or kDict.
  Result<ObjectId> container(Kind kind, std::size_t at);
  Result<ObjectId> frozen_set(std::span<const ObjectId> items, std::size_t at);
  /// @error kUnsafe the allow list does not have it
  Result<ObjectId> global(std::string_view module, std::string_view name, std::size_t at);
  Result<ObjectId> persistent(ObjectId id, std::size_t at);
  /// @error kCorrupt callee or arguments are of a kind that no pickler writes there
  Result<ObjectId> construct(Kind kind, ObjectId callee, ObjectId args, ObjectId kwargs,
                             std::size_t at);

  /// APPEND, APPENDS and ADDITEMS. @error kCorrupt the target takes no items
  Status add_items(ObjectId target, std::span<const ObjectId> items, std::size_t at);
  /// SETITEM, SETITEMS. @error kCorrupt the target takes no pairs, or their number is odd
  Status add_pairs(ObjectId target, std::span<const ObjectId> pairs, std::size_t at);
  /// BUILD. @error kUnsafe the target is a global; kCorrupt it takes no state, or has one
  Status set_state(ObjectId target, ObjectId state, std::size_t at);

  Graph finish(ObjectId root) &&;

 private:
  Result<ObjectId> make(Kind kind, std::size_t at, std::uint64_t payload = 0);
  Status holds(ObjectId parent, std::span<const ObjectId> children, std::size_t at);
  Result<ObjectId> filled(Kind kind, std::span<const ObjectId> items, std::size_t at);
  void append(Graph::Object& object, std::span<const ObjectId> added);
  Error too_many(std::size_t at) const;
  Error too_deep(std::size_t at) const;

  Graph graph_;
  ParseOptions options_;
  std::size_t made_ = 0;  // objects, leaves included
  std::unordered_map<std::string, std::uint32_t> global_of_name_;
};

}  // namespace shardkit::pickle
