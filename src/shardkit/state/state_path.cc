// The texts of paths and keys.
#include "shardkit/state/state_path.h"

#include <fmt/format.h>

namespace shardkit {
namespace {

// Python's repr() of a text: another one for each text.
std::string quoted(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string shown(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\')
      shown.append({'\\', c});
    else if (c == '\n')
      shown += "\\n";
    else if (c == '\r')
      shown += "\\r";
    else if (c == '\t')
      shown += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      shown += fmt::format("\\x{:02x}", c);
    else
      shown += c;
  }
  return shown + quote;
}

template <class ShowKey>
std::string joined(const StatePath& path, std::string_view separator, const ShowKey& show_key) {
  std::string text;
  for (const StatePath::Part& part : path.parts) {
    if (&part != &path.parts.front()) text += separator;
    if (const auto* key = std::get_if<std::string>(&part))
      text += show_key(*key);
    else
      text += std::to_string(std::get<std::int64_t>(part));
  }
  return text;
}

}  // namespace

std::string to_string(const StatePath& path) {
  return joined(path, ".", [](const std::string& key) { return key; });
}

std::string tuple_text(const StatePath& path) {
  return "(" + joined(path, ", ", quoted) + (path.parts.size() == 1 ? ",)" : ")");
}

Result<std::string> key_text(const Value& key) {
  if (const auto* text = key.get_if<std::string>()) return *text;
  if (const auto* number = key.get_if<std::int64_t>()) return std::to_string(*number);
  if (const auto* flag = key.get_if<bool>()) return std::string(*flag ? "True" : "False");
  if (key.get_if<None>()) return std::string("None");
  return Error(ErrorCode::kUnsupported, "a key of this kind has no text as part of a path")
      .expected("str, int, bool or None")
      .found(kind_name(key));
}

}  // namespace shardkit
