// Tests of add_low_rank: values by hand, the order of rounding, and that cutting changes no bit.
#include "shardkit/tensor/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace shardkit {
namespace {

TEST(AddLowRank, ByHand) {
  const std::vector<float> left = {1, 2, 3, 4};         // 2 x 2
  const std::vector<float> right = {1, 0, 2, 0, 1, 1};  // 2 x 3
  std::vector<float> target = {10, 20, 30, 40, 50, 60};
  add_low_rank<float>({left.data(), right.data(), 2, 3, 0.5f}, 2, 3, target.data(), 3);
  // left * right is {1, 2, 4; 3, 4, 10}.
  EXPECT_EQ(target, (std::vector<float>{10.5f, 21, 32, 41.5f, 52, 65}));
}

TEST(AddLowRank, RowsMayLieApart) {
  const std::vector<double> left = {2};
  const std::vector<double> right = {1, 5, 9};
  std::vector<double> target = {0, 0, 7, 7};
  add_low_rank<double>({left.data(), right.data() + 1, 1, 3, 1}, 1, 2, target.data(), 4);
  EXPECT_EQ(target, (std::vector<double>{10, 18, 7, 7}));
}

/// The rule as a loop: each operation rounded by itself, in order of k.
void by_the_rule(const LowRankUpdate<float>& update, std::int64_t rows, std::int64_t columns,
                 float* target) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      volatile float sum = 0;
      for (std::int64_t k = 0; k < update.rank; ++k) {
        const volatile float product =
            update.left[i * update.rank + k] * update.right[k * update.right_stride + j];
        sum = sum + product;
      }
      const volatile float scaled = update.scale * sum;
      target[i * columns + j] += scaled;
    }
  }
}

class AddLowRankBits : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(AddLowRankBits, AreThoseOfTheRuleHoweverItIsCut) {
  constexpr std::int64_t kRows = 7, kRank = 11;
  const std::int64_t columns = GetParam();
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const auto values = [&](std::int64_t count) {
    std::vector<float> result(static_cast<std::size_t>(count));
    for (float& value : result) value = normal(random) * std::exp(normal(random) * 4);
    return result;
  };
  const auto left = values(kRows * kRank), right = values(kRank * columns);
  const auto start = values(kRows * columns);
  LowRankUpdate<float> update{left.data(), right.data(), kRank, columns, 0.3f};
  auto expected = start;
  by_the_rule(update, kRows, columns, expected.data());
  auto whole = start;
  add_low_rank(update, kRows, columns, whole.data(), columns);
  EXPECT_EQ(whole, expected);
  // In pieces of a row that begin anywhere.
  auto pieces = start;
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < columns;) {
      const std::int64_t width = std::min<std::int64_t>(1 + (i * 37 + j) % 61, columns - j);
      LowRankUpdate<float> part = update;
      part.left = left.data() + i * kRank;
      part.right = right.data() + j;
      add_low_rank(part, 1, width, pieces.data() + i * columns + j, columns);
      j += width;
    }
  }
  EXPECT_EQ(pieces, expected);
}

INSTANTIATE_TEST_SUITE_P(Columns, AddLowRankBits, ::testing::Values(1, 31, 32, 33, 255, 600));

}  // namespace
}  // namespace shardkit
