// Finds the text of a top-level member and replaces it.
#include "shardkit/json/patch.h"

#include <fmt/format.h>

#include <cstddef>

#include "shardkit/json/parse.h"

namespace shardkit::json {
namespace {

/// Steps over the parts of text that parse() has accepted; nothing is checked again.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::size_t position() const { return at_; }
  char peek() const { return text_[at_]; }
  void skip_byte() { ++at_; }
  void skip_space() { at_ = text_.find_first_not_of(" \t\r\n", at_); }

  std::string_view skip_string() {
    const std::size_t start = at_;
    for (++at_; text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    ++at_;
    return text_.substr(start, at_ - start);
  }
  void skip_value() {
    std::size_t depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth, ++at_;
      } else if (c == '}' || c == ']') {
        --depth, ++at_;
      } else if (depth > 0) {
        ++at_;
      } else {
        at_ = text_.find_first_of(",}] \t\r\n", at_);  // a number or a word
      }
    } while (depth > 0);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::string> replace_member(std::string_view text, std::string_view top_level_key,
                                   std::string_view new_json) {
  SHARDKIT_ASSIGN(const Value document, parse(text, {.python_numbers = true}));
  if (document.get_if<Object>() == nullptr)
    return Error(ErrorCode::kCorrupt, "not a JSON object").found(kind_name(document));
  if (const auto value = parse(new_json); !value.ok())
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("the new value is no JSON: {}", value.error().message()));
  if (document.find(top_level_key) == nullptr)
    return Error(ErrorCode::kNotFound,
                 fmt::format("the JSON object has no member '{}'", top_level_key));

  Scanner scanner(text);
  scanner.skip_space();
  while (true) {
    scanner.skip_byte();  // '{' or ','
    scanner.skip_space();
    const std::string_view name = scanner.skip_string();
    scanner.skip_space();
    scanner.skip_byte();  // ':'
    scanner.skip_space();
    const std::size_t start = scanner.position();
    scanner.skip_value();
    SHARDKIT_ASSIGN(const Value key, parse(name));
    if (*key.get_if<std::string>() == top_level_key) {
      std::string result(text.substr(0, start));
      result += new_json;
      return result += text.substr(scanner.position());
    }
    scanner.skip_space();
  }
}

}  // namespace shardkit::json
