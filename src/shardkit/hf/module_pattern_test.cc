// Tests of names_module: what Python's re.match(rf"(.*\.)?({key})$", module) says.
#include "shardkit/hf/module_pattern.h"

#include <gtest/gtest.h>

#include "shardkit/testing/matchers.h"

namespace shardkit::hf {
namespace {

using testing::Fails;

constexpr const char* kModule = "model.layers.10.self_attn.q_proj";

TEST(ModulePattern, NamesTheEndOfAModule) {
  for (const char* key : {"q_proj", "self_attn.q_proj", "model.layers.10.self_attn.q_proj",
                          "^model.layers.10.self_attn.q_proj", R"(layers\.\d+\.self_attn\.q_proj)",
                          ".*q_proj", ".*", R"(\w_proj)", "q_?proj", "qx*_proj",
                          "10.self_attn.q_proj", "^.*q_proj", ".+self_attn.q_proj"})
    EXPECT_TRUE(names_module(key, kModule).value()) << key;
  for (const char* key :
       {"_proj", "proj", "k_proj", "0.self_attn.q_proj", "^q_proj", "q_proj.weight", "self_attn",
        "", R"(layers\.\d\.self_attn\.q_proj)", "^odel.layers.10.self_attn.q_proj"})
    EXPECT_FALSE(names_module(key, kModule).value()) << key;
}

TEST(ModulePattern, OtherExpressionsAreRefused) {
  for (const char* key : {"(q|v)_proj", "[qv]_proj", "q_proj$", "layers.{2}", R"(\bq_proj)",
                          R"(q\)", "q|v", "*q", "a**"})
    EXPECT_THAT(
        names_module(key, kModule),
        Fails(ErrorCode::kUnsupported, std::string("that shardkit does not know: found ") + key));
}

TEST(ModulePattern, ManyRepetitionsTakeNoLongTime) {
  std::string key, module(4000, 'a');
  for (int i = 0; i < 1000; ++i) key += "a*";
  EXPECT_FALSE(names_module(key + "b", module).value());
}

}  // namespace
}  // namespace shardkit::hf
