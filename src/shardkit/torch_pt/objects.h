// PtObjects: a pickle's objects in torch's vocabulary: calls by role, shapes, dtypes, attributes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/pickle/graph.h"
#include "shardkit/torch_pt/globals.h"
#include "shardkit/torch_pt/origin.h"

namespace shardkit {

using pickle::ObjectId;

/// callee(*args): a global and its positional arguments.
struct PtCall {
  GlobalRole role = GlobalRole::kRefused;
  ObjectId callee = pickle::kNoObject;
  std::span<const ObjectId> args;
};

/// The attributes that BUILD gave an object, by name.
class PtAttributes {
 public:
  void reserve(std::size_t more) { named_.reserve(named_.size() + more); }
  void add(std::string_view name, ObjectId value) { named_.emplace_back(name, value); }
  std::optional<ObjectId> find(std::string_view name) const;
  const std::vector<std::pair<std::string_view, ObjectId>>& all() const { return named_; }

 private:
  std::vector<std::pair<std::string_view, ObjectId>> named_;
};

/// A view of a Graph whose globals passed is_allowed_global(). Functions that return a Result fail
/// with kCorrupt, naming `what` and the object's offset, where an object is not what it must be.
class PtObjects {
 public:
  /// @param budget_bytes  how much memory the tree made of the graph may take; see charge()
  PtObjects(const pickle::Graph& graph, std::uint64_t budget_bytes);

  const pickle::Graph& graph() const { return graph_; }

  /// Checks every use of getattr, and that nothing else returns something that is called.
  /// @error kUnsafe another attribute than those of is_allowed_attribute()
  Status check_calls() const;

  /// Takes memory from the budget. Because objects may be shared, a small graph can stand for a
  /// tree without end; whoever makes a part of the tree charges for it first.
  /// @error kLimit the budget is used up
  Status charge(std::uint64_t bytes, ObjectId at);

  /// Filled in as meshes are read.
  PtOrigin& origin() { return origin_; }

  /// What a kGlobal means; kRefused for any other object.
  GlobalMeaning meaning(ObjectId id) const;
  /// "torch.distributed.tensor.DTensor", for a kGlobal.
  std::string full_name(ObjectId global) const;
  /// A kCall or kNew of a global; nothing for other objects.
  std::optional<PtCall> as_call(ObjectId id) const;
  /// A kNew or kCall of a global with this role?
  bool is_a(ObjectId id, GlobalRole role) const;

  bool is_none(ObjectId id) const { return graph_.kind(id) == pickle::Kind::kNone; }
  Result<std::int64_t> integer(ObjectId id, std::string_view what) const;
  Result<std::string_view> string(ObjectId id, std::string_view what) const;
  /// Elements of a tuple, a list or a torch.Size.
  Result<std::span<const ObjectId>> sequence(ObjectId id, std::string_view what) const;
  Result<std::vector<std::int64_t>> integers(ObjectId id, std::string_view what) const;
  /// At most Dims::kMaxDims integers.
  /// Charges for what a Dims takes beside itself.
  Result<Dims> dims(ObjectId id, std::string_view what);
  /// @error kUnsupported a quantized or sub-byte type
  Result<DType> dtype(ObjectId id) const;

  /// Attributes of an instance: its state is a dict of names, or a pair of two such dicts or None
  /// (instance dict and slots). No state: no attributes. Charges for them, though they are soon
  /// forgotten, so that many objects with one large state do not take time without end.
  Result<PtAttributes> attributes(ObjectId id, std::string_view what);
  /// The same for the state itself.
  Result<PtAttributes> attributes_of_state(ObjectId state, std::string_view what);

  Error error(ErrorCode code, std::string what, ObjectId at) const;
  /// kCorrupt, "<what>: ..., found <kind of object>".
  Error unexpected(std::string_view what, std::string_view expected, ObjectId at) const;

 private:
  Status add_attributes(ObjectId dict, std::string_view what, PtAttributes& attributes);

  const pickle::Graph& graph_;
  std::uint64_t budget_;
  PtOrigin origin_;
  std::vector<GlobalMeaning> meanings_;  // by global index
};

}  // namespace shardkit
