#include "shardkit/hf/heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace shardkit::hf {
namespace {

using ::testing::HasSubstr;

std::string warning_of(const std::string& architecture, const std::vector<std::string>& names) {
  ModelConfig config;
  if (!architecture.empty()) config.architectures = {architecture};
  return head_warning(config, names).value_or("");
}

TEST(HeadWarning, NothingWhereClassAndWeightsAgree) {
  EXPECT_EQ(warning_of("Qwen2ForTokenClassification", {"model.norm.weight", "score.weight"}), "");
  EXPECT_EQ(warning_of("LlamaForSequenceClassification", {"score.weight"}), "");
  EXPECT_EQ(warning_of("BertForTokenClassification", {"classifier.weight"}), "");
  EXPECT_EQ(warning_of("Qwen2ForCausalLM", {"model.norm.weight", "v_head.summary.weight"}), "");
  EXPECT_EQ(warning_of("Qwen2ForCausalLM", {"lm_head.weight", "model.layers.0.score.weight"}), "");
  EXPECT_EQ(warning_of("", {"score.weight"}), "");
  EXPECT_EQ(warning_of("GPT2DoubleHeadsModel", {"score.weight"}), "");
}

TEST(HeadWarning, AHeadThatTheClassLeavesOut) {
  EXPECT_THAT(warning_of("Qwen2ForCausalLM", {"model.norm.weight", "score.bias"}),
              HasSubstr("hold the head 'score.bias', and the class in config.json, "
                        "Qwen2ForCausalLM"));
}

TEST(HeadWarning, AClassWhoseHeadIsMissing) {
  EXPECT_THAT(warning_of("Qwen2ForTokenClassification", {"lm_head.weight"}),
              HasSubstr("made at random"));
}

}  // namespace
}  // namespace shardkit::hf
