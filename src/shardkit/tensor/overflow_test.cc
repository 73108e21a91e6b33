#include "shardkit/tensor/overflow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "shardkit/tensor/convert.h"

namespace shardkit {
namespace {

std::uint64_t overflows(const std::vector<float>& values) {
  const auto in = std::as_bytes(std::span(values));
  std::vector<std::byte> out(values.size() * 2);
  convert(DType::kFloat32, in, DType::kFloat16, out);
  return count_float16_overflows(DType::kFloat32, in, out);
}

TEST(Float16Overflows, CountsFiniteValuesThatBecomeInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // 65504 is the largest float16; 65520 is halfway to the next, and rounds away.
  EXPECT_EQ(overflows({0, 65504, -65504, 65519.996f}), 0u);
  EXPECT_EQ(overflows({65520, -65520, 1e30f, 1}), 3u);
  EXPECT_EQ(overflows({kInfinity, -kInfinity, std::nanf(""), 70000}), 1u);
  EXPECT_EQ(overflows({}), 0u);
}

TEST(Float16Overflows, FromEveryWiderFloat) {
  const std::vector<double> values{1e300, 65504, std::numeric_limits<double>::infinity()};
  std::vector<std::byte> out(values.size() * 2);
  const auto in = std::as_bytes(std::span(values));
  convert(DType::kFloat64, in, DType::kFloat16, out);
  EXPECT_EQ(count_float16_overflows(DType::kFloat64, in, out), 1u);
  const std::vector<std::uint16_t> bfloat16{0x4780, 0x7f80, 0x3f80};  // 65536, infinity, 1
  const auto halves = std::as_bytes(std::span(bfloat16));
  convert(DType::kBFloat16, halves, DType::kFloat16, out);
  EXPECT_EQ(count_float16_overflows(DType::kBFloat16, halves, out), 1u);
  EXPECT_TRUE(may_overflow_float16(DType::kBFloat16, DType::kFloat16));
  EXPECT_FALSE(may_overflow_float16(DType::kFloat16, DType::kFloat16));
  EXPECT_FALSE(may_overflow_float16(DType::kFloat64, DType::kBFloat16));
}

}  // namespace
}  // namespace shardkit
