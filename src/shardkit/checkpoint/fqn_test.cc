#include "shardkit/checkpoint/fqn.h"

#include <gtest/gtest.h>

namespace shardkit {
namespace {

TEST(Fqn, WrappersComeOffAnywhere) {
  EXPECT_EQ(clean_fqn("module._orig_mod.model.layers.0._fsdp_wrapped_module."
                      "_checkpoint_wrapped_module.mlp.w"),
            "model.layers.0.mlp.w");
  EXPECT_EQ(clean_fqn("_orig_mod.module.w"), "w");
}

TEST(Fqn, OnlyWholeComponentsCount) {
  EXPECT_EQ(clean_fqn("model.my_orig_mod.w"), "model.my_orig_mod.w");
  EXPECT_EQ(clean_fqn("module_list.w"), "module_list.w");
}

TEST(Fqn, ModuleComesOffInFrontOnly) {
  EXPECT_EQ(clean_fqn("module.module.encoder.module.w"), "encoder.module.w");
}

TEST(Fqn, OtherNamesStayAsTheyAre) {
  EXPECT_EQ(clean_fqn("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(clean_fqn("module"), "module");
  EXPECT_EQ(clean_fqn(""), "");
  EXPECT_EQ(clean_fqn("a..b"), "a..b");
}

}  // namespace
}  // namespace shardkit
