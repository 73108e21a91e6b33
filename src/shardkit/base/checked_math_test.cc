#include "shardkit/base/checked_math.h"

#include <gtest/gtest.h>

#include <limits>

namespace shardkit {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(CheckedMath, SaysWhenItOverflows) {
  EXPECT_EQ(checked_add<std::int64_t>(kMax, 0), kMax);
  EXPECT_EQ(checked_add<std::int64_t>(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_mul<std::int64_t>(kMax / 2, 2), kMax - 1);
  EXPECT_EQ(checked_mul<std::int64_t>(kMax / 2, 3), std::nullopt);
  EXPECT_EQ(checked_add<std::uint64_t>(~0ULL, 1), std::nullopt);
}

TEST(CheckedMath, ElementCount) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({4, 3}), 12);
  EXPECT_EQ(element_count({4, 0, 3}), 0);
  EXPECT_EQ(element_count({4, -1}), std::nullopt);
  EXPECT_EQ(element_count({kMax, 2}), std::nullopt);
  EXPECT_EQ(element_count({0, kMax, 2}), std::nullopt) << "a zero does not excuse the rest";
}

TEST(CheckedMath, ContiguousStrides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Dims{});
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Dims{4, 4, 1}));
}

TEST(Dims, ManyDimensionsMoveToTheHeap) {
  Dims many(8, 7);
  many[7] = 1;
  Dims copy = many;
  EXPECT_EQ(copy, many);
  const Dims moved = std::move(copy);
  EXPECT_EQ(moved, many);
  EXPECT_EQ(to_string(moved), "[7, 7, 7, 7, 7, 7, 7, 1]");
}

}  // namespace
}  // namespace shardkit
