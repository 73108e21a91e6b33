// json::read_events: walks JSON text without keeping it, for documents too large for a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shardkit/base/result.h"
#include "shardkit/json/parse.h"

namespace shardkit::json {

/// What a document consists of, in order. An error that a function returns ends the walk.
class Events {
 public:
  virtual ~Events() = default;

  virtual Status null() = 0;
  virtual Status boolean(bool value) = 0;
  virtual Status integer(std::int64_t value) = 0;
  /// Only for integers beyond int64.
  virtual Status unsigned_integer(std::uint64_t value) = 0;
  virtual Status number(double value) = 0;
  virtual Status string(std::string value) = 0;
  virtual Status begin_object() = 0;
  /// The name of the member whose value comes next. Equal names are the receiver's to find.
  virtual Status key(std::string name) = 0;
  virtual Status end_object() = 0;
  virtual Status begin_array() = 0;
  virtual Status end_array() = 0;
};

/// As parse(), but hands each part to `events` as it comes; memory does not grow with the text.
/// An error from `events` gets a byte offset: of a string or name its start, else the byte behind
/// which the part was complete.
Status read_events(std::string_view text, Events& events, const ParseLimits& limits = {});

}  // namespace shardkit::json
