#include "shardkit/merge/check_config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;

using Shapes = std::vector<std::pair<std::string, Dims>>;

Result<ConfigFindings> check(const std::string& config, const Shapes& shapes) {
  std::vector<CatalogTensor> tensors;
  for (const auto& [name, shape] : shapes) {
    CatalogTensor tensor;
    tensor.name = name;
    tensor.shape = shape;
    tensors.push_back(std::move(tensor));
  }
  return check_config(hf::parse_config(config).value(), tensors);
}

constexpr const char* kLlama = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "vocab_size": 10, "hidden_size": 4, "intermediate_size": 6, "num_attention_heads": 2,
    "tie_word_embeddings": false})";

Shapes llama() {
  return {{"model.embed_tokens.weight", {10, 4}},
          {"model.layers.0.self_attn.q_proj.weight", {4, 4}},
          {"model.norm.weight", {4}},
          {"lm_head.weight", {10, 4}}};
}

TEST(CheckConfig, AgreementSaysNothing) {
  const auto findings = check(kLlama, llama());
  ASSERT_THAT(findings, IsOk());
  EXPECT_THAT(findings->notes, IsEmpty());
  EXPECT_THAT(findings->warnings, IsEmpty());
}

TEST(CheckConfig, FewerRowsThanTheVocabularyAreRefusedAndMoreAreTold) {
  Shapes shapes = llama();
  shapes[0].second = {8, 4};
  EXPECT_THAT(check(kLlama, shapes),
              Fails(ErrorCode::kIncomplete, "expected vocab_size 10, found [8, 4]"));
  shapes[0].second = {16, 4};
  const auto padded = check(kLlama, shapes);
  ASSERT_THAT(padded, IsOk());
  EXPECT_THAT(padded->notes, ElementsAre(HasSubstr("has 16 rows")));
  shapes[0].second = {16, 5};
  EXPECT_THAT(check(kLlama, shapes), Fails(ErrorCode::kIncomplete, "expected [16, 4]"));
  // A family of which nothing else is known, and the vocabulary in text_config.
  const std::string nested = R"({"model_type": "new_vl", "text_config": {"vocab_size": 10}})";
  EXPECT_THAT(check(nested, {{"model.language_model.embed_tokens.weight", {8, 4}}}),
              Fails(ErrorCode::kIncomplete, "vocab_size 10"));
}

TEST(CheckConfig, AFlattenedParameterIsRefused) {
  Shapes shapes = llama();
  shapes[1].second = {16};
  EXPECT_THAT(check(kLlama, shapes),
              Fails(ErrorCode::kIncomplete, "q_proj.weight', expected [4, 4], found [16]"));
}

TEST(CheckNames, FlatParametersAreRefused) {
  const auto check = [](const std::string& name) {
    CatalogTensor tensor;
    tensor.name = name;
    tensor.shape = {16};
    return check_names({&tensor, 1});
  };
  EXPECT_THAT(check("model.layers.0._flat_param"),
              Fails(ErrorCode::kUnsupported, "SHARDED_STATE_DICT"));
  EXPECT_THAT(check("_flat_param_0"), Fails(ErrorCode::kUnsupported, "flat parameter"));
  EXPECT_THAT(check("flat_param"), Fails(ErrorCode::kUnsupported, "flat parameter"));
  EXPECT_THAT(check("model.flat_param.weight"), IsOk());
}

TEST(CheckConfig, AnOutputEmbeddingThatIsNeitherThereNorTied) {
  Shapes shapes = llama();
  shapes.pop_back();
  EXPECT_THAT(check(kLlama, shapes), Fails(ErrorCode::kIncomplete, "no lm_head.weight"));
  const std::string tied = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "vocab_size": 10, "hidden_size": 4, "tie_word_embeddings": true})";
  EXPECT_THAT(check(tied, shapes), IsOk());
  shapes.push_back({"score.weight", {1, 4}});
  EXPECT_THAT(check(kLlama, shapes), IsOk()) << "a value model";
}

TEST(CheckConfig, LayersThatAreNotThereAreRefused) {
  const std::string config = R"({"model_type": "llama", "num_hidden_layers": 2})";
  Shapes shapes = llama();
  EXPECT_THAT(check(config, shapes),
              Fails(ErrorCode::kIncomplete,
                    "a tensor of layer 1 is not there: tensor "
                    "'model.layers.1.self_attn.q_proj.weight', expected 2 layers"));
  shapes.push_back({"model.layers.1.self_attn.q_proj.weight", {4, 4}});
  EXPECT_THAT(check(config, shapes), IsOk());
  shapes.push_back({"model.layers.1.self_attn.k_proj.weight", {4, 4}});
  EXPECT_THAT(check(config, shapes),
              Fails(ErrorCode::kIncomplete, "'model.layers.0.self_attn.k_proj.weight'"));
  shapes.back().first = "model.layers.2.self_attn.q_proj.weight";
  const auto more = check(config, shapes);
  ASSERT_THAT(more, IsOk());
  EXPECT_THAT(more->warnings, ElementsAre(HasSubstr("has 3 layers, where config.json says 2")));
  // Without their number in the file, there may be more than were found, but no gaps.
  const std::string no_number = R"({"model_type": "llama"})";
  EXPECT_THAT(check(no_number, shapes), IsOk());
  shapes.back().first = "model.layers.3.self_attn.q_proj.weight";
  EXPECT_THAT(check(no_number, shapes), Fails(ErrorCode::kIncomplete, "layer 2 is not there"));
}

TEST(CheckConfig, AFinalNormOrEmbeddingThatIsNotThereIsRefused) {
  Shapes shapes = llama();
  shapes.erase(shapes.begin() + 2);
  EXPECT_THAT(check(kLlama, shapes),
              Fails(ErrorCode::kIncomplete,
                    "a tensor of the decoder is not there: tensor 'model.norm.weight'"));
  shapes = llama();
  shapes.erase(shapes.begin());
  EXPECT_THAT(check(kLlama, shapes),
              Fails(ErrorCode::kIncomplete, "tensor 'model.embed_tokens.weight'"));
  // A loader ties it to what is there.
  EXPECT_THAT(check(R"({"model_type": "llama", "tie_word_embeddings": true})", shapes), IsOk());
}

TEST(CheckConfig, OfOtherFamiliesLayersThatAreNotThereAreTold) {
  const auto findings = check(R"({"model_type": "new", "num_hidden_layers": 3})",
                              {{"model.layers.0.mixer.weight", {4}}, {"model.layers.2.w", {4}}});
  ASSERT_THAT(findings, IsOk());
  EXPECT_THAT(
      findings->warnings,
      ElementsAre("config.json says 3 layers, but no tensor has the name 'model.layers.1'"));
  const auto none =
      check(R"({"model_type": "llama", "num_hidden_layers": 3})", {{"lm_head.weight", {10, 4}}});
  ASSERT_THAT(none, IsOk());
  EXPECT_THAT(none->warnings, ElementsAre(HasSubstr("a part of a model?")));
}

TEST(CheckConfig, ExpertsThatAreNotThereAreRefused) {
  const std::string config = R"({"model_type": "qwen3_moe", "num_experts": 4})";
  const std::string layer = "model.layers.0.mlp.experts";
  EXPECT_THAT(check(config, {{layer + ".gate_up_proj", {4, 6, 4}}}), IsOk());
  EXPECT_THAT(check(config, {{layer + ".gate_up_proj", {2, 6, 4}}}),
              Fails(ErrorCode::kIncomplete, "gate_up_proj', expected 4 on dimension 0"));
  Shapes single;
  for (const int expert : {0, 1, 3})
    single.push_back({layer + "." + std::to_string(expert) + ".up_proj.weight", {3, 4}});
  EXPECT_THAT(check(config, single), Fails(ErrorCode::kIncomplete,
                                           "a tensor of expert 2 of its layer is not there: tensor "
                                           "'model.layers.0.mlp.experts.2.up_proj.weight'"));
  single.push_back({layer + ".2.up_proj.weight", {3, 4}});
  EXPECT_THAT(check(config, single), IsOk());
  single.push_back({layer + ".1.down_proj.weight", {4, 3}});
  EXPECT_THAT(check(config, single),
              Fails(ErrorCode::kIncomplete, "experts.0.down_proj.weight', expected 4 experts"));
  single.pop_back();
  EXPECT_THAT(check(config, single), IsOk());
  single.push_back({layer + ".4.up_proj.weight", {3, 4}});
  const auto more = check(config, single);
  ASSERT_THAT(more, IsOk());
  EXPECT_THAT(more->warnings, ElementsAre(HasSubstr("has 5 experts")));
  const auto none = check(config, {{"model.layers.0.mlp.up_proj.weight", {3, 4}}});
  ASSERT_THAT(none, IsOk());
  EXPECT_THAT(none->warnings, ElementsAre(HasSubstr("no tensor has the name")));
}

TEST(CheckConfig, OfAQuantizedModelShapesAreNotJudged) {
  const std::string quantized = R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 4,
      "quantization_config": {}})";
  EXPECT_THAT(check(quantized, {{"model.embed_tokens.weight", {8, 4}}}), IsOk());
}

}  // namespace
}  // namespace shardkit
