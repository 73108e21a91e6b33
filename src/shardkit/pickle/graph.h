// Graph: the objects that a pickle describes, inert, and who holds whom.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"

namespace shardkit::pickle {

/// Names an object of a Graph.
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

/// How a kCall or kNew object came to be; Graph::items() has what was appended to it since.
struct Construction {
  ObjectId callee = kNoObject;
  ObjectId args = kNoObject;    ///< a kTuple
  ObjectId kwargs = kNoObject;  ///< a kDict, or kNoObject
  ObjectId state = kNoObject;   ///< what BUILD gave it, or kNoObject
  bool holds_pairs = false;     ///< the items are keys and values by turns
};

/// Objects of one pickle. Cycles are possible (a list that holds itself); nothing was executed.
///
/// A leaf (None, a number, most texts) is not stored: its id says where its opcode lies in the
/// pickle, and it is decoded when it is asked for. Two thirds of a checkpoint's objects are leaves.
class Graph {
 public:
  ObjectId root() const { return root_; }
  /// Ids below this are the objects that are no leaves, in the order in which they were made.
  ObjectId non_leaves() const { return static_cast<ObjectId>(objects_.size()); }
  Kind kind(ObjectId id) const { return is_leaf(id) ? kLeafKinds[opcode(id)] : objects_[id].kind; }
  /// Of the opcode that made the object, in the file the pickle came from.
  std::uint64_t offset(ObjectId id) const {
    return base_offset_ + (is_leaf(id) ? id & ~kLeafBit : objects_[id].offset);
  }

  /// The accessors below REQUIRE an object of the kinds named.

  bool boolean(ObjectId id) const;           // kBool
  std::int64_t integer(ObjectId id) const;   // kInt
  double real(ObjectId id) const;            // kFloat
  std::string_view text(ObjectId id) const;  // kString, kBytes, kBigInt
  /// kTuple, kList, kSet, kFrozenSet: the elements; kDict: keys and values by turns, in the order
  /// they were set, repeated keys included; kCall, kNew: what was appended, or pairs as in a kDict.
  std::span<const ObjectId> items(ObjectId id) const {
    const Object& object = objects_[id];
    if (object.kind == Kind::kCall || object.kind == Kind::kNew) {
      const Made& made = constructions_[object.a];
      return std::span(items_).subspan(made.first_item, made.item_count);
    }
    return std::span(items_).subspan(object.a, object.b);
  }
  const Global& global(ObjectId id) const { return globals_[objects_[id].a]; }  // kGlobal
  std::uint32_t global_index(ObjectId id) const { return objects_[id].a; }      // kGlobal
  ObjectId persistent_id(ObjectId id) const { return objects_[id].a; }          // kPersistentId
  const Construction& construction(ObjectId id) const {                         // kCall, kNew
    return constructions_[objects_[id].a].how;
  }

  /// Every different global, indexed by global_index().
  const std::vector<Global>& globals() const { return globals_; }

 private:
  friend class GraphBuilder;
  Graph() = default;

  static constexpr ObjectId kLeafBit = 0x80000000;  // the other bits: offset in data_
  static const std::array<Kind, 256> kLeafKinds;    // by opcode

  struct Object {
    Kind kind = Kind::kNone;
    bool decoded = false;     // text lies in decoded_, not in data_
    bool roomy = false;       // its items have room for std::bit_ceil of their count
    std::uint16_t depth = 0;  // levels of containers below, as far as known
    std::uint32_t offset = 0;
    std::uint32_t a = 0;  // meaning depends on kind; of a container: its first item, their count
    std::uint32_t b = 0;
  };

  struct Made {
    Construction how;
    std::uint32_t first_item = 0;
    std::uint32_t item_count = 0;
  };

  static bool is_leaf(ObjectId id) { return (id & kLeafBit) != 0; }
  std::uint8_t opcode(ObjectId leaf) const {
    return static_cast<std::uint8_t>(data_[leaf & ~kLeafBit]);
  }
  std::string_view argument(ObjectId leaf, std::size_t bytes) const;

  std::string data_;     // the pickle; most texts are ranges of it
  std::string decoded_;  // texts that had escapes, and long integers
  std::vector<Object> objects_;
  std::vector<ObjectId> items_;  // of all containers
  std::vector<Made> constructions_;
  std::vector<Global> globals_;
  ObjectId root_ = kNoObject;
  std::uint64_t base_offset_ = 0;
};

}  // namespace shardkit::pickle
