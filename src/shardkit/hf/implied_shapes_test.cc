// Tests of implied_shape against the tensors of transformers' models.
#include "shardkit/hf/implied_shapes.h"

#include <set>

#include "shardkit/hf/golden_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::hf {
namespace {

TEST(ImpliedShape, IsTheShapeTransformersMakesOrNone) {
  const std::set<std::string> unknown{"qwen2_moe", "qwen3_moe",    "mixtral", "phi3",
                                      "olmo2",     "gemma3n_text", "gpt2"};
  const json::Value document = golden("shapes.json");
  for (const auto& [name, model] : members(document)) {
    const ModelConfig config = config_of(*model.find("config")->get_if<std::string>());
    std::set<std::string> left_out;
    int implied = 0;
    for (const auto& [tensor, sizes] : members(*model.find("shapes"))) {
      const auto shape = implied_shape(config, tensor);
      if (!shape) {
        left_out.insert(tensor);
        continue;
      }
      ++implied;
      std::vector<std::int64_t> expected;
      for (const json::Value& size : sizes.get_if<json::Array>()->items)
        expected.push_back(*size.as_int64());
      EXPECT_EQ(*shape, Dims(expected)) << name << " " << tensor;
    }
    if (unknown.contains(name)) {
      EXPECT_EQ(implied, 0) << name;
      continue;
    }
    // Whatever is left out belongs to the image encoder.
    EXPECT_GE(implied, 12) << name;
    for (const std::string& tensor : left_out)
      EXPECT_TRUE(tensor.starts_with("model.visual.") ||
                  tensor.starts_with("model.vision_tower.") ||
                  tensor.starts_with("model.multi_modal_projector."))
          << name << " " << tensor;
  }
}

TEST(ImpliedShape, SaysNothingWithoutCertainty) {
  const auto shape = [](const std::string& fields, const char* name) {
    return implied_shape(config_of("{" + fields +
                                   ", \"hidden_size\": 24, \"vocab_size\": 40, "
                                   "\"num_attention_heads\": 4, \"intermediate_size\": 36}"),
                         name);
  };
  constexpr const char* kQ = "model.layers.0.self_attn.q_proj.weight";
  constexpr const char* kK = "model.layers.10.self_attn.k_proj.weight";
  const std::string llama = R"("model_type": "llama")";
  EXPECT_EQ(shape(llama, kQ), (Dims{24, 24}));
  EXPECT_EQ(shape(llama, kK), (Dims{24, 24}));                       // as many key heads as heads
  EXPECT_EQ(shape(R"("model_type": "mistral")", kK), std::nullopt);  // 8 by default, or not
  EXPECT_EQ(shape(R"("model_type": "qwen3")", kQ), std::nullopt);    // head_dim is missing
  EXPECT_EQ(shape(R"("model_type": "qwen3")", "lm_head.weight"), (Dims{40, 24}));
  EXPECT_EQ(shape(R"("model_type": "unheard")", kQ), std::nullopt);
  EXPECT_EQ(shape(llama + R"(, "quantization_config": {"bits": 4})", kQ), std::nullopt);
  EXPECT_EQ(shape(llama + R"(, "head_dim": 0)", kQ), std::nullopt);
  EXPECT_EQ(shape(llama + R"(, "head_dim": 9223372036854775807)", kQ), std::nullopt);
  for (const char* name :
       {"model.layers.x.mlp.up_proj.weight", "model.layers..mlp.up_proj.weight",
        "model.layers.0.mlp.up_proj.weight.absmax", "model.layers.0.mlp.up_proj",
        "model.layers.0.mlp.up_proj.base_layer.weight",
        "model.layers.0.mlp.experts.0.up_proj.weight", "vision.layers.0.mlp.up_proj.weight",
        "model.layers.0.self_attn.q_proj.lora_A.weight", "score.weight", "model.norm.bias",
        "xmodel.norm.weight", "lm_head.bias", ""})
    EXPECT_EQ(shape(llama, name), std::nullopt) << name;
}

TEST(LayerName, IsThatOfADecoderWithANumber) {
  const auto name = parse_layer_name("model.language_model.layers.12.mlp.up_proj.weight");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->decoder, "model.language_model.");
  EXPECT_EQ(name->layer, 12);
  EXPECT_EQ(name->rest, "mlp.up_proj.weight");
  EXPECT_EQ(parse_layer_name("layers.0.w")->decoder, "");
  for (const char* other : {"model.layers.-1.w", "model.layers.x.w", "model.layers.1.",
                            "model.layers.1", "model.layers.", "vision.layers.1.w",
                            "model.layers.9223372036854775807.w", "model.embed_tokens.weight"})
    EXPECT_FALSE(parse_layer_name(other)) << other;
}

}  // namespace
}  // namespace shardkit::hf
