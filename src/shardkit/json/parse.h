// json::parse: JSON text to a Value, strictly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shardkit/base/result.h"
#include "shardkit/json/value.h"

namespace shardkit::json {

struct ParseLimits {
  std::size_t depth = 100;        ///< arrays and objects inside each other
  std::size_t bytes = 16u << 20;  ///< of text; a tree takes up to 30 times as much memory
  /// Take the words NaN, Infinity and -Infinity for numbers, as Python's json module writes them
  /// (config.json of Mamba-2 models holds one).
  bool python_numbers = false;
  std::uint64_t text_offset = 0;  ///< of the text in its file; added to the offsets in errors
};

/// Parses one document of RFC 8259, which must be all of `text` but for white space.
///
/// Stricter than most: two members of one name, a byte order mark, a NUL byte, text that is not
/// UTF-8, and a lone surrogate are errors; so is an integer that fits neither int64 nor uint64
/// (it is never rounded to a double), and a number beyond the doubles.
///
/// @error kCorrupt  no such document; the byte offset is of the fault or, for a name that comes
///                  twice, of its second appearance
/// @error kLimit    deeper or longer than `limits`, or a number that has no exact place here
Result<Value> parse(std::string_view text, const ParseLimits& limits = {});

}  // namespace shardkit::json
