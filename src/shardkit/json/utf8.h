// UTF-8: checking and decoding, by the Unicode standard's table of well-formed sequences.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardkit::json {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< 1 to 4; 0 where the text is not well-formed
};

/// The code point that starts at `position`; no overlong form, surrogate or value over U+10FFFF
/// passes (Unicode 15, table 3-7). REQUIRES: position < text.size().
CodePoint decode_utf8(std::string_view text, std::size_t position);

bool is_valid_utf8(std::string_view text);

}  // namespace shardkit::json
