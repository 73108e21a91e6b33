// Tests of is_lora_name.
#include "shardkit/hf/lora.h"

#include <gtest/gtest.h>

namespace shardkit::hf {
namespace {

TEST(LoraName, IsAWholePart) {
  for (const char* name :
       {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight",
        "model.layers.0.self_attn.q_proj.lora_B.weight", "lora_A", "x.base_layer.weight",
        "model.embed_tokens.lora_embedding_A.default", "model.embed_tokens.lora_embedding_B",
        "q_proj.lora_magnitude_vector.default.weight", "score.modules_to_save.default.weight",
        "score.original_module.weight"})
    EXPECT_TRUE(is_lora_name(name)) << name;
  for (const char* name : {"model.layers.0.self_attn.q_proj.weight", "", "lora_Ab.x", "my_lora_A",
                           "flora_A.weight", "model.base_layers.0", "lora"})
    EXPECT_FALSE(is_lora_name(name)) << name;
}

}  // namespace
}  // namespace shardkit::hf
