// Tests of names that PEFT 0.21 gives: in a wrapped model's state dict, and in a saved adapter.
#include "shardkit/hf/lora_name.h"

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

struct Case {
  const char* name;
  LoraRole role;
  const char* module;
  const char* adapter;
  const char* model_name;
};

TEST(LoraName, IsTakenApart) {
  const Case cases[] = {
      {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", LoraRole::kA,
       "model.layers.0.self_attn.q_proj", "default", ""},
      {"model.layers.0.self_attn.q_proj.lora_B.weight", LoraRole::kB,
       "model.layers.0.self_attn.q_proj", "", ""},
      {"base_model.model.q.lora_B.actor.bias", LoraRole::kBias, "q", "actor", ""},
      {"base_model.model.model.embed_tokens.lora_embedding_A.default", LoraRole::kEmbeddingA,
       "model.embed_tokens", "default", ""},
      {"base_model.model.model.embed_tokens.lora_embedding_B", LoraRole::kEmbeddingB,
       "model.embed_tokens", "", ""},
      {"q.lora_magnitude_vector.default.weight", LoraRole::kMagnitude, "q", "default", ""},
      {"q.lora_magnitude_vector.default", LoraRole::kMagnitude, "q", "default", ""},
      {"base_model.model.model.layers.0.q_proj.base_layer.bias", LoraRole::kModel, "", "",
       "model.layers.0.q_proj.bias"},
      {"base_model.model.lm_head.weight", LoraRole::kModel, "", "", "lm_head.weight"},
      {"mlp.experts.base_layer.base_layer.down_proj", LoraRole::kModel, "", "",
       "mlp.experts.down_proj"},
      {"base_model.model.score.original_module.weight", LoraRole::kOriginal, "score", "",
       "score.weight"},
      {"base_model.model.score.modules_to_save.default.dense.weight", LoraRole::kTrainedCopy,
       "score", "default", "score.dense.weight"},
  };
  for (const Case& expected : cases) {
    const LoraName name = parse_lora_name(expected.name);
    EXPECT_EQ(name.role, expected.role) << expected.name;
    EXPECT_EQ(name.module, expected.module) << expected.name;
    EXPECT_EQ(name.adapter, expected.adapter) << expected.name;
    EXPECT_EQ(name.model_name, expected.model_name) << expected.name;
  }
}

TEST(LoraName, WhatHasNoKnownFormIsUnknown) {
  for (const char* name :
       {"q.lora_A.default.x.weight", "lora_A.default.weight", "q.lora_C.default.weight",
        "q.lora_A.default.bias", "q.vera_lambda_b.default", "q.lora_ga.default",
        "model.embed_tokens.token_adapter.trainable_tokens_delta.default",
        "score.modules_to_save.default.lora_A.default.weight", "score.modules_to_save.default",
        "modules_to_save.default.weight"})
    EXPECT_EQ(parse_lora_name(name).role, LoraRole::kUnknown) << name;
}

TEST(LoraName, IsSavedAsPeftSavesIt) {
  const std::pair<const char*, const char*> cases[] = {
      {"base_model.model.m.q.lora_A.default.weight", "base_model.model.m.q.lora_A.weight"},
      {"m.q.lora_B.default.bias", "base_model.model.m.q.lora_B.bias"},
      {"m.embed.lora_embedding_B.default", "base_model.model.m.embed.lora_embedding_B"},
      {"m.q.lora_magnitude_vector.default.weight", "base_model.model.m.q.lora_magnitude_vector"},
      {"base_model.model.score.modules_to_save.default.weight", "base_model.model.score.weight"},
  };
  for (const auto& [name, saved] : cases)
    EXPECT_EQ(saved_adapter_name(parse_lora_name(name)), saved);
  for (const char* bias : {"base_model.model.m.q.base_layer.bias", "m.q.base_layer.bias"})
    EXPECT_EQ(saved_model_name(bias), "base_model.model.m.q.base_layer.bias");
}

}  // namespace
}  // namespace shardkit::hf
