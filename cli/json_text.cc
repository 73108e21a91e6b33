#include "cli/json_text.h"

namespace shardkit::cli {

json::Array to_array(const std::vector<std::string>& texts) {
  json::Array array;
  for (const std::string& text : texts) array.items.emplace_back(text);
  return array;
}

}  // namespace shardkit::cli
