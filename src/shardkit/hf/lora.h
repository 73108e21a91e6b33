// Names that PEFT gives to the tensors of adapters.
#pragma once

#include <string_view>

namespace shardkit::hf {

/// Whether a tensor belongs to a LoRA-wrapped model: some part of the name between dots is one of
/// lora_A, lora_B, lora_embedding_A, lora_embedding_B, lora_magnitude_vector, base_layer,
/// modules_to_save, original_module (peft 0.18, tuners/lora/layer.py and utils/other.py). Such a
/// state dict is no plain model until the adapter is folded in.
bool is_lora_name(std::string_view name);

}  // namespace shardkit::hf
