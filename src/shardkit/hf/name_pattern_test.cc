#include "shardkit/hf/name_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace shardkit::hf {
namespace {

// fnmatch.fnmatchcase of Python 3.11 says the same of each but the last.
TEST(NamePattern, FitsWholeNames) {
  constexpr std::string_view kBias = "model.layers.3.mlp.gate.e_score_correction_bias";
  EXPECT_TRUE(matches("*e_score_correction_bias", kBias));
  EXPECT_TRUE(matches("model.layers.?.mlp.gate.*", kBias));
  EXPECT_TRUE(matches(kBias, kBias));
  EXPECT_TRUE(matches("*", kBias));
  EXPECT_TRUE(matches("*gate*bias*", kBias));
  EXPECT_FALSE(matches("e_score_correction_bias", kBias));
  EXPECT_FALSE(matches("model.layers.??.mlp*", kBias));
  EXPECT_FALSE(matches("*gate", kBias));
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("**", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_TRUE(matches("a*ab", "aaaab"));
  EXPECT_FALSE(matches("[a]", "a"));  // no classes: names hold no brackets
}

TEST(NamePattern, HostilePatternsEndSoon) {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "a*";
  EXPECT_FALSE(matches(pattern + "b", std::string(5000, 'a')));
}

}  // namespace
}  // namespace shardkit::hf
