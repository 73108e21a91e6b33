// Url: an http or https address, taken apart as far as trust in a server goes by it.
#pragma once

#include <string>
#include <string_view>

#include "shardkit/base/result.h"

namespace shardkit::hub {

/// What addresses may be long: pre-signed ones of storages take some 2 kB.
inline constexpr std::size_t kLongestUrl = 16 << 10;

struct Url {
  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< lower case; an IPv6 address in brackets
  int port = 0;
  std::string target;  ///< path and query; empty, or begins with '/' or '?'

  std::string text() const;
  /// Without the query, which may be a secret: for messages.
  std::string shown() const;
  /// Whether both lead to one server: scheme, host and port are equal (RFC 6454).
  bool has_origin_of(const Url& other) const;
};

/// @error kCorrupt no http(s) address, longer than kLongestUrl, with a user name, or with
/// characters
///        that programs read in different ways
Result<Url> parse_url(std::string_view text);

/// Where a Location header leads: an address, or a path on the server of `base`.
/// @error as parse_url; kUnsafe it leads from https to http
Result<Url> follow(const Url& base, std::string_view location);

/// `text` as one component of a path: everything but letters, digits and "-._~" as %XX.
std::string encode_component(std::string_view text);

}  // namespace shardkit::hub
