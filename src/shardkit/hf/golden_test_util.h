// Golden files for this room's tests: what transformers says of configurations, shapes and ties.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shardkit/hf/config.h"
#include "shardkit/json/parse.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::hf {

inline json::Value golden(const std::string& name) {
  const std::string path = testing::source_path("src/shardkit/hf/testdata/" + name);
  return json::parse(testing::read_file(path)).value();
}

inline const std::vector<std::pair<std::string, json::Value>>& members(const json::Value& value) {
  return value.get_if<json::Object>()->members;
}

inline ModelConfig config_of(std::string text) { return parse_config(std::move(text)).value(); }

}  // namespace shardkit::hf
