// Golden files for this room's tests: what safetensors, transformers and huggingface_hub wrote.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "shardkit/json/parse.h"
#include "shardkit/safetensors/file_layout.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::safetensors {

inline std::string golden_path(const std::string& name) {
  return testing::source_path("src/shardkit/safetensors/testdata/" + name);
}

inline json::Value golden_json(const std::string& name) {
  return json::parse(testing::read_file(golden_path(name))).value();
}

/// A member that must be there; throws where it is not.
inline const json::Value& at(const json::Value& object, std::string_view key) {
  const json::Value* member = object.find(key);
  if (member == nullptr) throw std::runtime_error("no member " + std::string(key));
  return *member;
}

inline const std::string& text_of(const json::Value& value) { return *value.get_if<std::string>(); }

inline const std::vector<json::Value>& items_of(const json::Value& value) {
  return value.get_if<json::Array>()->items;
}

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// name, dtype and shape of an entry in expected.json, which are PyTorch's.
inline TensorSpec spec_of(const json::Value& tensor) {
  TensorSpec spec;
  spec.name = text_of(at(tensor, "name"));
  spec.dtype = dtype_from_torch_name(text_of(at(tensor, "dtype"))).value();
  std::vector<std::int64_t> sizes;
  for (const json::Value& size : items_of(at(tensor, "shape"))) sizes.push_back(*size.as_int64());
  spec.shape = Dims(sizes);
  return spec;
}

}  // namespace shardkit::safetensors
