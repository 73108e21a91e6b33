// The texts of paths and keys.
#include "shardkit/state/state_path.h"

namespace shardkit {
namespace {

std::string joined(const StatePath& path, std::string_view separator, std::string_view quote) {
  std::string text;
  for (const StatePath::Part& part : path.parts) {
    if (&part != &path.parts.front()) text += separator;
    if (const auto* key = std::get_if<std::string>(&part))
      text.append(quote).append(*key).append(quote);
    else
      text += std::to_string(std::get<std::int64_t>(part));
  }
  return text;
}

}  // namespace

std::string to_string(const StatePath& path) { return joined(path, ".", ""); }

std::string tuple_text(const StatePath& path) {
  return "(" + joined(path, ", ", "'") + (path.parts.size() == 1 ? ",)" : ")");
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
