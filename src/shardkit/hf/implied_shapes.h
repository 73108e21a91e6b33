// What a config.json implies for the tensors of well-known model families: shapes and layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shardkit/base/dims.h"
#include "shardkit/hf/config.h"

namespace shardkit::hf {

/// The full shape of a decoder's tensor, where model type and config leave no doubt; else nothing.
/// A wrong answer would turn good checkpoints away, so it knows few names: embeddings, lm_head,
/// attention and MLP projections, and norms.
///
/// Model types (transformers 5.24): llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text, and
/// the text part of gemma3, qwen2_vl, qwen2_5_vl, qwen3_vl. None with experts, none with fused
/// projections, nothing of a quantized model.
///
/// @param name without wrapper parts
std::optional<Dims> implied_shape(const ModelConfig& config, std::string_view name);

/// Whether each layer of the decoder has the same tensors as the others: the model types above.
bool has_like_layers(const ModelConfig& config);

/// "model.layers.12.mlp.up_proj.weight" is "model.", 12 and "mlp.up_proj.weight".
struct LayerName {
  std::string_view decoder;
  std::int64_t layer = 0;
  std::string_view rest;
};

/// Nothing for a name that is not of a decoder's layer, as the model types above and most others
/// name them. The parts point into `name`.
std::optional<LayerName> parse_layer_name(std::string_view name);

}  // namespace shardkit::hf
