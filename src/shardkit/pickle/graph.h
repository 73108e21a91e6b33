// Graph: the objects that a pickle describes, inert, and who holds whom.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"

namespace shardkit::pickle {

/// Index of an object in its Graph.
using ObjectId = std::uint32_t;
inline constexpr ObjectId kNoObject = 0xffffffff;

enum class Kind : std::uint8_t {
  kNone,
  kBool,
  kInt,     ///< fits int64
  kBigInt,  ///< outside int64: text() is two's complement, little-endian, as short as can be
  kFloat,
  kString,  ///< text() is valid UTF-8
  kBytes,
  kTuple,
  kList,
  kSet,
  kFrozenSet,
  kDict,
  kGlobal,        ///< a class or function by name; it was on the allow list
  kPersistentId,  ///< something kept outside the pickle; persistent_id() says what
  kCall,          ///< what callee(*args) would return (REDUCE)
  kNew,           ///< what callee.__new__(callee, *args, **kwargs) would return (NEWOBJ)
};

/// What a pickle asks the module system for.
struct Global {
  std::string module;
  std::string name;  ///< may be dotted (protocol 4)
};

/// How a kCall or kNew object came to be, and what was added to it since.
struct Construction {
  ObjectId callee = kNoObject;
  ObjectId args = kNoObject;    ///< a kTuple
  ObjectId kwargs = kNoObject;  ///< a kDict, or kNoObject
  ObjectId state = kNoObject;   ///< what BUILD gave it, or kNoObject
  std::vector<ObjectId> items;  ///< appended; or keys and values by turns, if holds_pairs
  bool holds_pairs = false;
};

/// Objects of one pickle. Cycles are possible (a list that holds itself); nothing was executed.
class Graph {
 public:
  ObjectId root() const { return root_; }
  std::size_t size() const { return objects_.size(); }
  Kind kind(ObjectId id) const { return objects_[id].kind; }
  /// Of the opcode that made the object, in the file the pickle came from.
  std::uint64_t offset(ObjectId id) const { return base_offset_ + objects_[id].offset; }

  /// The accessors below REQUIRE an object of the kinds named.

  bool boolean(ObjectId id) const { return objects_[id].a != 0; }                    // kBool
  std::int64_t integer(ObjectId id) const;                                           // kInt
  double real(ObjectId id) const;                                                    // kFloat
  std::string_view text(ObjectId id) const;  // kString, kBytes, kBigInt
  /// kTuple, kList, kSet, kFrozenSet: the elements; kDict: keys and values by turns, in the order
  /// they were set, repeated keys included.
  std::span<const ObjectId> items(ObjectId id) const;
  const Global& global(ObjectId id) const { return globals_[objects_[id].a]; }       // kGlobal
  std::uint32_t global_index(ObjectId id) const { return objects_[id].a; }           // kGlobal
  ObjectId persistent_id(ObjectId id) const { return objects_[id].a; }  // kPersistentId
  const Construction& construction(ObjectId id) const;                               // kCall, kNew

  /// Every different global, indexed by global_index().
  const std::vector<Global>& globals() const { return globals_; }

 private:
  friend class GraphBuilder;
  Graph() = default;

  struct Object {
    Kind kind = Kind::kNone;
    bool decoded = false;     // text lies in decoded_, not in data_
    std::uint16_t depth = 0;  // levels of containers below, as far as known
    std::uint32_t offset = 0;
    std::uint32_t a = 0;  // meaning depends on kind
    std::uint32_t b = 0;
  };

  std::string data_;     // the pickle; most texts are ranges of it
  std::string decoded_;  // texts that had escapes, and long integers
  std::vector<Object> objects_;
  std::vector<ObjectId> tuple_items_;
  std::vector<std::vector<ObjectId>> containers_;  // of lists, sets and dicts
  std::vector<Construction> constructions_;
  std::vector<Global> globals_;
  ObjectId root_ = kNoObject;
  std::uint64_t base_offset_ = 0;
};

}  // namespace shardkit::pickle
