// Texts and numbers inside pickles: UTF-8, the escapes of protocol 0, integers of any size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardkit::pickle {

/// Whether `text` is UTF-8 as the Unicode standard has it: no surrogates, nothing overlong.
bool is_utf8(std::string_view text);

/// A UNICODE argument (raw-unicode-escape: Latin-1 bytes, \uXXXX, \UXXXXXXXX) as UTF-8; nothing if
/// it does not parse or names a surrogate.
std::optional<std::string> decode_raw_unicode_escape(std::string_view text);

/// A STRING argument: a Python 2 string literal in quotes; nothing if it does not parse.
std::optional<std::string> decode_quoted(std::string_view text);

/// A decimal integer as two's complement, little-endian, as short as can be; nothing if it is no
/// integer or longer than kMaxDecimalDigits (Python refuses those too).
std::optional<std::string> decode_decimal(std::string_view text);
inline constexpr std::size_t kMaxDecimalDigits = 4300;

/// Drops the bytes of a two's complement number that only repeat its sign.
std::string_view shortest_twos_complement(std::string_view bytes);

/// The value of a two's complement number of at most 8 bytes; 0 for none.
std::int64_t small_integer(std::string_view bytes);

}  // namespace shardkit::pickle
