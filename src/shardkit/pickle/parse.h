// parse(): runs a pickle's opcodes and builds the objects they describe; executes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shardkit/base/result.h"
#include "shardkit/pickle/graph.h"

namespace shardkit::pickle {

/// Whether a pickle may name this global. Module and name are as the pickle has them: protocols
/// below 3 say "__builtin__" for "builtins", protocol 4 may give a dotted name.
using AllowGlobal = bool (*)(std::string_view module, std::string_view name);

struct ParseOptions {
  AllowGlobal allow = nullptr;        ///< null: no global is allowed
  std::uint64_t base_offset = 0;      ///< where the pickle begins in its file; added to all offsets
  std::size_t max_objects = 1 << 24;  ///< objects, and stack entries
  std::size_t max_depth = 500;        ///< containers within containers; at most 65535
};

inline constexpr std::size_t kMaxPickleBytes = 256u << 20;

/// Reads a pickle of protocol 0 to 5.
///
/// Objects cost at most 80 bytes each, and 16 bytes for each place where one is held. There is at
/// most one for each byte of the pickle, and at most max_objects; time is linear in the pickle.
/// Every opcode of Python 3.13's pickletools is known; those that make no sense without running
/// code or outside data are refused (INST, OBJ, EXT1-4, NEXT_BUFFER, READONLY_BUFFER). Strings must
/// be valid UTF-8 without surrogates.
///
/// @param data  the whole pickle, at most kMaxPickleBytes; becomes part of the graph
/// @error kUnsafe a global that is not allowed, or an attempt to change one;
///        kCorrupt bytes that no pickler writes;
///        kUnsupported a protocol or an opcode of the refused ones;
///        kLimit too many objects, too deep, or too large. All give the offset.
Result<Graph> parse(std::string data, const ParseOptions& options);

}  // namespace shardkit::pickle
