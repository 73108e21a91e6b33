#include "shardkit/pickle/text.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace shardkit::pickle {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

std::optional<std::uint32_t> hex(std::string_view digits) {
  std::uint32_t value = 0;
  for (const char c : digits) {
    std::uint32_t digit = 0;
    if (c >= '0' && c <= '9')
      digit = static_cast<std::uint32_t>(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = static_cast<std::uint32_t>(c - 'a' + 10);
    else if (c >= 'A' && c <= 'F')
      digit = static_cast<std::uint32_t>(c - 'A' + 10);
    else
      return std::nullopt;
    value = value << 4 | digit;
  }
  return value;
}

bool append_utf8(std::string& out, std::uint32_t code) {
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
  const auto tail = [&out, code](int shift) {
    out.push_back(static_cast<char>(0x80 | (code >> shift & 0x3f)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xc0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xf0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
  return true;
}

/// One backslash escape of a Python 2 string literal; `i` stands behind the backslash.
bool append_escape(std::string& out, std::string_view text, std::size_t& i) {
  constexpr std::string_view kNames = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  if (i >= text.size()) return false;
  if (const auto at = kNames.find(text[i]); at != std::string_view::npos) {
    out.push_back(kMeanings[at]);
    ++i;
    return true;
  }
  if (text[i] == 'x') {
    const auto value = i + 3 <= text.size() ? hex(text.substr(i + 1, 2)) : std::nullopt;
    if (!value) return false;
    out.push_back(static_cast<char>(*value));
    i += 3;
    return true;
  }
  int value = 0;
  int digits = 0;
  for (; digits < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++digits, ++i)
    value = value * 8 + (text[i] - '0');
  if (digits == 0 || value > 255) return false;
  out.push_back(static_cast<char>(value));
  return true;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    // Most texts are ASCII: eight bytes at once.
    std::uint64_t eight = 0;
    if (text.size() - i >= 8 &&
        (std::memcpy(&eight, text.data() + i, 8), (eight & 0x8080808080808080u) == 0)) {
      i += 8;
      continue;
    }
    const std::uint8_t lead = byte_at(text, i++);
    if (lead < 0x80) continue;
    int more = 0;
    std::uint32_t code = 0;
    if (lead >= 0xc2 && lead <= 0xdf) {
      more = 1;
      code = lead & 0x1fu;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      more = 2;
      code = lead & 0x0fu;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      more = 3;
      code = lead & 0x07u;
    } else {
      return false;
    }
    for (int k = 0; k < more; ++k, ++i) {
      if (i >= text.size() || (byte_at(text, i) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte_at(text, i) & 0x3fu);
    }
    const bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
  }
  return true;
}

std::optional<std::string> decode_raw_unicode_escape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool escape = text[i] == '\\' && i + 1 < text.size();
    const std::size_t digits = !escape ? 0 : text[i + 1] == 'u' ? 4 : text[i + 1] == 'U' ? 8 : 0;
    if (digits == 0) {
      // A backslash before anything else stands for itself, and shields a backslash after it.
      for (const std::size_t end = i + (escape ? 2 : 1); i < end; ++i)
        append_utf8(out, byte_at(text, i));
      continue;
    }
    if (i + 2 + digits > text.size()) return std::nullopt;
    const auto code = hex(text.substr(i + 2, digits));
    if (!code || !append_utf8(out, *code)) return std::nullopt;
    i += 2 + digits;
  }
  return out;
}

std::optional<std::string> decode_quoted(std::string_view text) {
  if (text.size() < 2 || text.front() != text.back() ||
      (text.front() != '\'' && text.front() != '"'))
    return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '\\') {
      out.push_back(text[i++]);
      continue;
    }
    ++i;
    if (!append_escape(out, text, i)) return std::nullopt;
  }
  return out;
}

std::optional<std::string> decode_decimal(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > kMaxDecimalDigits) return std::nullopt;
  std::vector<std::uint32_t> words(1, 0);  // base 2^32, little-endian
  for (std::size_t i = 0; i < text.size();) {
    std::uint64_t carry = 0;
    std::uint64_t scale = 1;  // nine digits at a time: the most that fit 32 bits
    for (int k = 0; k < 9 && i < text.size(); ++k, ++i, scale *= 10) {
      if (text[i] < '0' || text[i] > '9') return std::nullopt;
      carry = carry * 10 + static_cast<std::uint64_t>(text[i] - '0');
    }
    for (std::uint32_t& word : words) {
      carry += word * scale;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) words.push_back(static_cast<std::uint32_t>(carry));
  }
  words.push_back(0);  // room for the sign
  if (negative) {
    std::uint64_t carry = 1;
    for (std::uint32_t& word : words) {
      carry += static_cast<std::uint32_t>(~word);
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }
  std::string bytes;
  for (const std::uint32_t word : words)
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(word >> shift));
  return std::string(shortest_twos_complement(bytes));
}

std::string_view shortest_twos_complement(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::uint8_t last = byte_at(bytes, bytes.size() - 1);
    const bool next_negative = bytes.size() > 1 && (byte_at(bytes, bytes.size() - 2) & 0x80) != 0;
    const bool repeats =
        (last == 0x00 && !next_negative) || (last == 0xff && bytes.size() > 1 && next_negative);
    if (!repeats) break;
    bytes.remove_suffix(1);
  }
  return bytes;
}

std::int64_t small_integer(std::string_view bytes) {
  if (bytes.empty()) return 0;
  std::uint64_t value = (byte_at(bytes, bytes.size() - 1) & 0x80) != 0 ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | byte_at(bytes, i);
  return static_cast<std::int64_t>(value);
}

}  // namespace shardkit::pickle
