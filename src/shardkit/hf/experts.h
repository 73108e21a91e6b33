// Names of the experts of mixture-of-experts layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardkit::hf {

/// A tensor of routed experts, by its name.
struct ExpertName {
  std::string_view layer;              ///< up to and with "experts": "model.layers.3.mlp.experts"
  std::optional<std::int64_t> expert;  ///< of one expert; none: all experts, on dimension 0
};

/// Reads "LAYER.experts.7.gate_proj.weight" (one expert), and "LAYER.experts.gate_up_proj" or
/// "...experts.down_proj" with an ending such as "_bias" or "_blocks" (all of a layer in one
/// tensor, as qwen3_moe, llama4 and gpt_oss have them in transformers 5). Nothing for other names:
/// routers, shared experts.
std::optional<ExpertName> parse_expert_name(std::string_view name);

}  // namespace shardkit::hf
