#include "cli/json_text.h"

namespace shardkit::cli {

json::Array to_array(const std::vector<std::string>& texts) {
  json::Array array;
  for (const std::string& text : texts) array.items.emplace_back(text);
  return array;
}

json::Object to_json(const Error& error) {
  json::Object object;
  object.add("status", "error");
  object.add("code", to_string(error.code()));
  object.add("message", error.message());
  if (error.file()) object.add("file", *error.file());
  if (error.offset()) object.add("offset", *error.offset());
  if (error.tensor()) object.add("tensor", *error.tensor());
  return object;
}

}  // namespace shardkit::cli
