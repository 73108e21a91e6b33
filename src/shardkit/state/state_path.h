// StatePath: where a value stands in a state dict.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// The steps from the root to a value: a text for a dict's key, a number for an index (>= 0) into a
/// list or tuple (torch 2.13, torch/distributed/checkpoint/_traverse.py, OBJ_PATH).
struct StatePath {
  using Part = std::variant<std::string, std::int64_t>;
  std::vector<Part> parts;

  friend bool operator==(const StatePath&, const StatePath&) = default;
};

/// The parts joined by ".": "optim.state.0.step". The root is the empty text. Different paths may
/// have the same text: a key may hold dots, or be "0".
std::string to_string(const StatePath& path);

/// As Python shows a path, so that different ones look different: "('optim', 'state', 0)".
std::string tuple_text(const StatePath& path);

/// What Python's str() makes of a dict's key: the key as a part of a path.
///
/// @error kUnsupported the key is none of str, int (within 64 bits), bool and None
Result<std::string> key_text(const Value& key);

}  // namespace shardkit
