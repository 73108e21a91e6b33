// The texts of paths and keys.
#include "shardkit/state/state_path.h"

#include <fmt/format.h>

namespace shardkit {

std::string to_string(const StatePath& path) {
  std::string text;
  for (std::size_t i = 0; i < path.parts.size(); ++i) {
    if (i > 0) text += '.';
    const StatePath::Part& part = path.parts[i];
    if (const auto* key = std::get_if<std::string>(&part))
      text += *key;
    else
      text += std::to_string(std::get<std::int64_t>(part));
  }
  return text;
}

std::string tuple_text(const StatePath& path) {
  std::string text = "(";
  for (std::size_t i = 0; i < path.parts.size(); ++i) {
    if (i > 0) text += ", ";
    const StatePath::Part& part = path.parts[i];
    if (const auto* key = std::get_if<std::string>(&part))
      text += fmt::format("'{}'", *key);
    else
      text += std::to_string(std::get<std::int64_t>(part));
  }
  return text + (path.parts.size() == 1 ? ",)" : ")");
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
