// Tests of tied_pairs against the pairs of transformers' models.
#include "shardkit/hf/ties.h"

#include "shardkit/hf/golden_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::hf {
namespace {

TEST(TiedPairs, AreTransformers) {
  int pairs_seen = 0;
  const json::Value document = golden("ties.json");
  for (const auto& [name, model] : members(document)) {
    const ModelConfig config = config_of(*model.find("config")->get_if<std::string>());
    std::vector<std::string> names;
    for (const json::Value& item : model.find("names")->get_if<json::Array>()->items)
      names.push_back(*item.get_if<std::string>());
    const auto pairs = tied_pairs(config, names);
    const auto& expected = model.find("pairs")->get_if<json::Array>()->items;
    ASSERT_EQ(pairs.size(), expected.size()) << name;
    for (std::size_t i = 0; i < pairs.size(); ++i, ++pairs_seen) {
      EXPECT_EQ(pairs[i].alias, *expected[i].find("alias")->get_if<std::string>()) << name;
      EXPECT_EQ(pairs[i].canonical, *expected[i].find("canonical")->get_if<std::string>()) << name;
    }
  }
  EXPECT_EQ(pairs_seen, 15);
}

TEST(TiedPairs, NeedBothNames) {
  const ModelConfig config = config_of(R"({"text_config": {"tie_word_embeddings": true}})");
  const auto count = [&](std::vector<std::string> names) {
    return tied_pairs(config, names).size();
  };
  EXPECT_EQ(count({"lm_head.weight", "model.embed_tokens.weight"}), 1u);
  EXPECT_EQ(count({"language_model.lm_head.weight", "language_model.model.embed_tokens.weight"}),
            1u);
  EXPECT_EQ(count({"model.embed_tokens.weight"}), 0u);
  EXPECT_EQ(count({"lm_head.weight", "model.layers.0.mlp.up_proj.weight"}), 0u);
  EXPECT_EQ(count({"score.weight", "model.embed_tokens.weight"}), 0u);
}

TEST(TiesLeftOut, HaveTheCanonicalNameAlone) {
  const auto alias = [](const char* config, std::vector<std::string> names) {
    const auto pairs = ties_left_out(config_of(config), names);
    return pairs.empty() ? std::string() : pairs.front().alias;
  };
  constexpr const char* kTied = R"({"tie_word_embeddings": true})";
  EXPECT_EQ(alias(kTied, {"model.embed_tokens.weight"}), "lm_head.weight");
  EXPECT_EQ(alias(kTied, {"language_model.model.embed_tokens.weight"}),
            "language_model.lm_head.weight");
  EXPECT_EQ(alias(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})",
                  {"transformer.wte.weight"}),
            "lm_head.weight");
  EXPECT_EQ(alias(kTied, {"model.embed_tokens.weight", "lm_head.weight"}), "");
  EXPECT_EQ(alias(R"({"tie_word_embeddings": false})", {"model.embed_tokens.weight"}), "");
  EXPECT_EQ(alias(R"({"tie_word_embeddings": true,
                      "architectures": ["Qwen2ForTokenClassification"]})",
                  {"model.embed_tokens.weight"}),
            "");
}

}  // namespace
}  // namespace shardkit::hf
