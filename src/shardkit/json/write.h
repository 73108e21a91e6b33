// json::write: a Value to JSON text.
#pragma once

#include <string>

#include "shardkit/json/value.h"

namespace shardkit::json {

enum class WriteStyle {
  kCompact,  ///< no white space, UTF-8 as it is (as serde_json writes safetensors headers)
  kPretty,   ///< indent 2, ASCII only: the bytes of Python's json.dumps(value, indent=2)
};

/// The text, without a newline at its end. Members keep their order. Doubles are the shortest text
/// that reads back equal, spelled as Python does; one that is not finite becomes null, since JSON
/// has no word for it. REQUIRES: strings are UTF-8 (else each bad byte becomes U+FFFD).
/// Recursive: the tree must not be deeper than parse() would allow.
std::string write(const Value& value, WriteStyle style);

}  // namespace shardkit::json
