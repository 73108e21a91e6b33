// Reading leaves: objects that lie in the pickle as their opcodes wrote them.
#include "shardkit/pickle/graph.h"

#include <bit>

#include "shardkit/pickle/opcodes.h"
#include "shardkit/pickle/text.h"

namespace shardkit::pickle {
namespace {

constexpr std::array<Kind, 256> leaf_kinds() {
  std::array<Kind, 256> kinds{};
  const auto set = [&kinds](Opcode code, Kind kind) {
    kinds[static_cast<std::size_t>(code)] = kind;
  };
  set(Opcode::kNone, Kind::kNone);
  for (const Opcode code : {Opcode::kNewTrue, Opcode::kNewFalse}) set(code, Kind::kBool);
  for (const Opcode code : {Opcode::kBinInt, Opcode::kBinInt1, Opcode::kBinInt2, Opcode::kLong1})
    set(code, Kind::kInt);
  set(Opcode::kBinFloat, Kind::kFloat);
  for (const Opcode code : {Opcode::kShortBinString, Opcode::kBinString, Opcode::kShortBinUnicode,
                            Opcode::kBinUnicode, Opcode::kBinUnicode8})
    set(code, Kind::kString);
  for (const Opcode code :
       {Opcode::kShortBinBytes, Opcode::kBinBytes, Opcode::kBinBytes8, Opcode::kByteArray8})
    set(code, Kind::kBytes);
  return kinds;
}

/// How many bytes of count stand before a text.
std::size_t count_bytes(Opcode code) {
  switch (code) {
    case Opcode::kShortBinString:
    case Opcode::kShortBinUnicode:
    case Opcode::kShortBinBytes: return 1;
    case Opcode::kBinString:
    case Opcode::kBinUnicode:
    case Opcode::kBinBytes: return 4;
    default: return 8;
  }
}

std::uint64_t unsigned_number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

}  // namespace

const std::array<Kind, 256> Graph::kLeafKinds = leaf_kinds();

/// The bytes behind the opcode. The machine went over them: they are there.
std::string_view Graph::argument(ObjectId leaf, std::size_t bytes) const {
  return std::string_view(data_).substr((leaf & ~kLeafBit) + 1, bytes);
}

bool Graph::boolean(ObjectId id) const {
  if (!is_leaf(id)) return objects_[id].a != 0;
  return static_cast<Opcode>(opcode(id)) == Opcode::kNewTrue;
}

std::int64_t Graph::integer(ObjectId id) const {
  if (!is_leaf(id))
    return static_cast<std::int64_t>(std::uint64_t{objects_[id].b} << 32 | objects_[id].a);
  switch (static_cast<Opcode>(opcode(id))) {
    case Opcode::kBinInt: return static_cast<std::int32_t>(unsigned_number(argument(id, 4)));
    case Opcode::kBinInt1: return static_cast<std::int64_t>(unsigned_number(argument(id, 1)));
    case Opcode::kBinInt2: return static_cast<std::int64_t>(unsigned_number(argument(id, 2)));
    default: {  // LONG1
      const auto count = static_cast<std::size_t>(unsigned_number(argument(id, 1)));
      return small_integer(argument(id, 1 + count).substr(1));
    }
  }
}

double Graph::real(ObjectId id) const {
  if (!is_leaf(id)) return std::bit_cast<double>(integer(id));
  return std::bit_cast<double>(__builtin_bswap64(unsigned_number(argument(id, 8))));
}

std::string_view Graph::text(ObjectId id) const {
  if (!is_leaf(id)) {
    const Object& object = objects_[id];
    return std::string_view(object.decoded ? decoded_ : data_).substr(object.a, object.b);
  }
  const std::size_t width = count_bytes(static_cast<Opcode>(opcode(id)));
  const auto size = static_cast<std::size_t>(unsigned_number(argument(id, width)));
  return argument(id, width + size).substr(width);
}

}  // namespace shardkit::pickle
