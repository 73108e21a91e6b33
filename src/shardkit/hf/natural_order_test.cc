#include "shardkit/hf/natural_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace shardkit::hf {
namespace {

// sorted(names, key=dot_natural_key) of transformers 5.24.
const std::vector<std::string> kSorted{"a.007",
                                       "a.10",
                                       "a.",
                                       "a..b",
                                       "a.b10c.d",
                                       "a.b2c.d",
                                       "lm_head.weight",
                                       "model.2.x",
                                       "model.layers.2.a",
                                       "model.layers.2.a.b",
                                       "model.layers.2.a2",
                                       "model.layers.2.a10",
                                       "model.layers.10.a",
                                       "model.x",
                                       "w.x",
                                       "w_02.x",
                                       "w_2.y"};

TEST(NaturalOrder, OrdersAsTransformers) {
  std::vector<std::string> names(kSorted.rbegin(), kSorted.rend());
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_EQ(names, kSorted);
}

TEST(NaturalOrder, NumbersOfAnyLengthAndWithZeros) {
  EXPECT_FALSE(natural_less("a.007", "a.7"));
  EXPECT_FALSE(natural_less("a.7", "a.007"));
  EXPECT_TRUE(natural_less("a.99999999999999999999", "a.100000000000000000000"));
  EXPECT_FALSE(natural_less("a", "a"));
}

}  // namespace
}  // namespace shardkit::hf
