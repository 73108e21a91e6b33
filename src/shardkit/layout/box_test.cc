// Box: intersections, bounds, and cutting interval products, against brute force and hand counts.
#include "shardkit/layout/box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Box, Intersects) {
  EXPECT_EQ(intersect({{0, 2}, {4, 3}}, {{2, 0}, {5, 4}}), (Box{{2, 2}, {2, 2}}));
  EXPECT_EQ(intersect({{0}, {4}}, {{4}, {4}}), std::nullopt) << "touching shares nothing";
  EXPECT_EQ(intersect({{0}, {4}}, {{2}, {0}}), std::nullopt) << "an empty box shares nothing";
  EXPECT_EQ(intersect({{}, {}}, {{}, {}}), (Box{{}, {}})) << "0-d boxes hold one element";
  EXPECT_EQ(intersect({{kMax - 1}, {kMax}}, {{0}, {kMax}}), (Box{{kMax - 1}, {1}}));
}

TEST(Box, KnowsWhatLiesInside) {
  EXPECT_TRUE(lies_inside({{1, 0}, {3, 2}}, {4, 2}));
  EXPECT_TRUE(lies_inside({{4}, {0}}, {4}));
  EXPECT_TRUE(lies_inside({{}, {}}, {}));
  EXPECT_FALSE(lies_inside({{6}, {0}}, {5})) << "ChunkShardingSpec's empty shards lie outside";
  EXPECT_FALSE(lies_inside({{1, 1}, {3, 2}}, {4, 2}));
  EXPECT_FALSE(lies_inside({{-1}, {2}}, {4}));
  EXPECT_FALSE(lies_inside({{0}, {-1}}, {4}));
  EXPECT_FALSE(lies_inside({{2}, {kMax}}, {kMax}));
  EXPECT_FALSE(lies_inside({{0}, {4}}, {4, 1}));
}

TEST(Box, WholeAndEmpty) {
  EXPECT_EQ(whole({2, 3}), (Box{{0, 0}, {2, 3}}));
  EXPECT_FALSE(whole({}).empty());
  EXPECT_TRUE(whole({2, 0}).empty());
  EXPECT_EQ(to_string(Box{{0, 2}, {4, 1}}), "[0:4, 2:3]");
  EXPECT_EQ(size(Intervals{{0, 2}, {5, 9}}), 6);
}

TEST(Box, CutsProductsInRowMajorOrder) {
  EXPECT_THAT(cut_into_boxes({{{0, 2}, {4, 5}}, {{1, 3}}, {{0, 1}, {7, 9}}}),
              ElementsAre(BoxPair{{0, 0, 0}, {{0, 1, 0}, {2, 2, 1}}},
                          BoxPair{{0, 0, 1}, {{0, 1, 7}, {2, 2, 2}}},
                          BoxPair{{2, 0, 0}, {{4, 1, 0}, {1, 2, 1}}},
                          BoxPair{{2, 0, 1}, {{4, 1, 7}, {1, 2, 2}}}));
  EXPECT_THAT(cut_into_boxes({}), ElementsAre(BoxPair{{}, {{}, {}}}));
  EXPECT_THAT(cut_into_boxes({{{0, 4}}, {}}), IsEmpty());
}

TEST(Box, CutsManyIntervalsOfHugeDimensions) {
  Intervals many;
  const std::int64_t step = kMax / 65536;
  for (std::int64_t i = 0; i < 65536; ++i) many.push_back({i * step, i * step + step / 2});
  const std::vector<BoxPair> boxes = cut_into_boxes({many, {{0, 3}}});
  ASSERT_EQ(boxes.size(), 65536U);
  EXPECT_EQ(boxes.back(), (BoxPair{{65535 * (step / 2), 0}, {{65535 * step, 0}, {step / 2, 3}}}));
}

}  // namespace
}  // namespace shardkit
