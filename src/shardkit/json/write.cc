// Writes a json::Value as text.
#include "shardkit/json/write.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "shardkit/json/utf8.h"

namespace shardkit::json {
namespace {

/// Shortest digits that read back equal, laid out as Python's repr: an exponent below 1e-4 and from
/// 1e16 on, else a plain number with at least one digit behind the point.
std::string number_text(double value) {
  if (!std::isfinite(value)) return "null";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));  // -d.ddde+XX

  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::size_t sign = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + sign, text.data() + text.size(), exponent);
  const bool negative = text[0] == '-';
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;

  std::string result = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    result += digits[0];
    if (digits.size() > 1) result += '.' + digits.substr(1);
    return result + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return result + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  result += digits.substr(0, whole) + '.';
  return result + (digits.size() > whole ? digits.substr(whole) : "0");
}

class Writer {
 public:
  explicit Writer(WriteStyle style) : pretty_(style == WriteStyle::kPretty) {}

  void operator()(Null) { out_ += "null"; }
  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(std::int64_t value) { out_ += fmt::to_string(value); }
  void operator()(std::uint64_t value) { out_ += fmt::to_string(value); }
  void operator()(double value) { out_ += number_text(value); }
  void operator()(const std::string& value) { add_string(value); }
  void operator()(const Array& array) {
    add_container('[', array.items, ']', [this](const Value& item) { add(item); });
  }
  void operator()(const Object& object) {
    add_container('{', object.members, '}', [this](const auto& member) {
      add_string(member.first);
      out_ += pretty_ ? ": " : ":";
      add(member.second);
    });
  }

  void add(const Value& value) { std::visit(*this, value.variant()); }
  std::string take() { return std::move(out_); }

 private:
  template <class Items, class AddItem>
  void add_container(char open, const Items& items, char close, AddItem add_item) {
    out_ += open;
    ++depth_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ',';
      break_line();
      add_item(items[i]);
    }
    --depth_;
    if (!items.empty()) break_line();
    out_ += close;
  }
  void break_line() {
    if (pretty_) out_.append(1, '\n').append(2 * depth_, ' ');
  }

  void add_string(std::string_view text) {
    out_ += '"';
    for (std::size_t i = 0; i < text.size();) {
      CodePoint point = decode_utf8(text, i);
      const bool valid = point.bytes > 0;
      if (!valid) point = {0xFFFD, 1};
      if (pretty_ || point.value < 0x80) {
        add_escaped(point.value);
      } else {
        out_ += valid ? text.substr(i, point.bytes) : "\xEF\xBF\xBD";
      }
      i += point.bytes;
    }
    out_ += '"';
  }
  void add_escaped(char32_t c) {
    switch (c) {
      case '"': out_ += "\\\""; return;
      case '\\': out_ += "\\\\"; return;
      case '\b': out_ += "\\b"; return;
      case '\f': out_ += "\\f"; return;
      case '\n': out_ += "\\n"; return;
      case '\r': out_ += "\\r"; return;
      case '\t': out_ += "\\t"; return;
      default: break;
    }
    // Python escapes DEL, serde_json does not.
    const bool plain = c >= 0x20 && c < (pretty_ ? 0x7Fu : 0x80u);
    if (plain) {
      out_ += static_cast<char>(c);
    } else if (c < 0x10000) {
      out_ += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    } else {
      const auto rest = static_cast<std::uint32_t>(c) - 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }

  bool pretty_;
  std::size_t depth_ = 0;
  std::string out_;
};

}  // namespace

std::string write(const Value& value, WriteStyle style) {
  Writer writer(style);
  writer.add(value);
  return writer.take();
}

}  // namespace shardkit::json
