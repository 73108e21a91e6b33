#include "shardkit/pickle/writer.h"

#include <bit>
#include <limits>

namespace shardkit::pickle {

void Writer::number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i));
}

bool Writer::recall(const std::string& key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return false;
  get(found->second);
  return true;
}

std::uint32_t Writer::put() {
  out_ += 'r';
  number(next_, 4);
  return next_++;
}

void Writer::get(std::uint32_t index) {
  out_ += 'j';
  number(index, 4);
}

void Writer::integer(std::int64_t value) {
  if (value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max()) {
    out_ += 'J';
    number(static_cast<std::uint64_t>(value), 4);
  } else {
    out_ += "\x8a\x08";
    number(static_cast<std::uint64_t>(value), 8);
  }
}

void Writer::big_integer(std::string_view twos_complement) {
  out_ += '\x8a';
  number(twos_complement.size(), 1);
  out_ += twos_complement;
}

void Writer::real(double value) {
  out_ += 'G';
  number(__builtin_bswap64(std::bit_cast<std::uint64_t>(value)), 8);
}

void Writer::string(std::string_view utf8) {
  std::string key = "X" + std::string(utf8);
  if (recall(key)) return;
  out_ += 'X';
  number(utf8.size(), 4);
  out_ += utf8;
  memo_.emplace(std::move(key), put());
}

void Writer::bytes(std::string_view data) {
  global("_codecs", "encode");
  mark();
  std::string utf8;
  for (const char c : data) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += static_cast<char>(0xc0 | byte >> 6);
      utf8 += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  string(utf8);
  string("latin1");
  tuple();
  reduce();
}

void Writer::global(std::string_view module, std::string_view name) {
  std::string key = "c" + std::string(module) + "\n" + std::string(name) + "\n";
  if (recall(key)) return;
  out_ += key;
  memo_.emplace(std::move(key), put());
}

}  // namespace shardkit::pickle
