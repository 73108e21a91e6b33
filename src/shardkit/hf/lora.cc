// Recognizes PEFT's tensor names.
#include "shardkit/hf/lora.h"

#include <algorithm>
#include <array>

namespace shardkit::hf {
namespace {

constexpr std::array<std::string_view, 8> kLoraParts{
    "lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B", "lora_magnitude_vector",
    "base_layer", "modules_to_save", "original_module"};

}  // namespace

bool is_lora_name(std::string_view name) {
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    if (std::find(kLoraParts.begin(), kLoraParts.end(), part) != kLoraParts.end()) return true;
    if (dot == name.npos) return false;
    name.remove_prefix(dot + 1);
  }
}

}  // namespace shardkit::hf
