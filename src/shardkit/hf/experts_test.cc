#include "shardkit/hf/experts.h"

#include <gtest/gtest.h>

namespace shardkit::hf {
namespace {

TEST(ParseExpertName, OneExpertAndAllOfALayer) {
  const auto one = parse_expert_name("model.layers.3.mlp.experts.12.down_proj.weight");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->layer, "model.layers.3.mlp.experts");
  EXPECT_EQ(one->expert, 12);
  for (const char* name :
       {"model.layers.0.mlp.experts.gate_up_proj", "model.layers.0.mlp.experts.down_proj_bias",
        "model.layers.0.mlp.experts.gate_up_proj_blocks"}) {
    const auto all = parse_expert_name(name);
    ASSERT_TRUE(all) << name;
    EXPECT_EQ(all->layer, "model.layers.0.mlp.experts");
    EXPECT_FALSE(all->expert);
  }
}

TEST(ParseExpertName, OtherNamesAreNone) {
  for (const char* name :
       {"model.layers.0.mlp.gate.weight", "model.layers.0.mlp.shared_experts.gate_proj.weight",
        "transformer.blocks.0.ffn.experts.mlp.w1", "model.layers.0.mlp.experts.12",
        "model.layers.0.mlp.experts.-1.weight", "experts.0.weight"})
    EXPECT_FALSE(parse_expert_name(name)) << name;
}

}  // namespace
}  // namespace shardkit::hf
