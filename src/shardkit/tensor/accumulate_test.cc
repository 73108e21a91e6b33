// accumulate: reductions that PyTorch 2.13 gave for two gloo ranks, and rounding once at the end.
#include "shardkit/tensor/accumulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "shardkit/tensor/convert.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Reduces addends of a type that is its own accumulator.
template <class T>
std::vector<T> reduce(Accumulation op, DType dtype, std::vector<std::vector<T>> addends) {
  std::vector<T> accumulator(addends[0].size());
  const auto bytes = std::as_writable_bytes(std::span(accumulator));
  begin_accumulation(dtype, std::as_bytes(std::span(addends[0])), bytes);
  for (std::size_t i = 1; i < addends.size(); ++i)
    accumulate(op, dtype, std::as_bytes(std::span(addends[i])), bytes);
  if (op == Accumulation::kAvg)
    divide_accumulator(dtype, static_cast<std::int64_t>(addends.size()), bytes);
  std::vector<T> out(accumulator.size());
  round_accumulator(dtype, bytes, std::as_writable_bytes(std::span(out)));
  return out;
}

// The same for bfloat16, from and to float32.
std::vector<float> reduce_bfloat16(Accumulation op, std::vector<std::vector<float>> addends) {
  std::vector<float> accumulator(addends[0].size());
  const auto bytes = std::as_writable_bytes(std::span(accumulator));
  std::vector<std::uint16_t> narrow(accumulator.size());
  const auto narrow_bytes = std::as_writable_bytes(std::span(narrow));
  for (std::size_t i = 0; i < addends.size(); ++i) {
    convert(DType::kFloat32, std::as_bytes(std::span(addends[i])), DType::kBFloat16, narrow_bytes);
    if (i == 0)
      begin_accumulation(DType::kBFloat16, narrow_bytes, bytes);
    else
      accumulate(op, DType::kBFloat16, narrow_bytes, bytes);
  }
  if (op == Accumulation::kAvg)
    divide_accumulator(DType::kBFloat16, static_cast<std::int64_t>(addends.size()), bytes);
  round_accumulator(DType::kBFloat16, bytes, narrow_bytes);
  convert(DType::kBFloat16, narrow_bytes, DType::kFloat32, bytes);
  return accumulator;
}

TEST(Accumulate, Float32AsPyTorch) {
  const std::vector<std::vector<float>> addends{{1, 2}, {4, 5}};
  const auto reduced = [&](Accumulation op) { return reduce(op, DType::kFloat32, addends); };
  EXPECT_THAT(reduced(Accumulation::kSum), ElementsAre(5, 7));
  EXPECT_THAT(reduced(Accumulation::kAvg), ElementsAre(2.5, 3.5));
  EXPECT_THAT(reduced(Accumulation::kMin), ElementsAre(1, 2));
  EXPECT_THAT(reduced(Accumulation::kMax), ElementsAre(4, 5));
  EXPECT_THAT(reduced(Accumulation::kProduct), ElementsAre(4, 10));
}

TEST(Accumulate, BFloat16AsPyTorch) {
  const std::vector<std::vector<float>> addends{{-7, 100}, {2, 100}};
  EXPECT_THAT(reduce_bfloat16(Accumulation::kSum, addends), ElementsAre(-5, 200));
  EXPECT_THAT(reduce_bfloat16(Accumulation::kAvg, addends), ElementsAre(-2.5, 100));
  EXPECT_THAT(reduce_bfloat16(Accumulation::kMin, addends), ElementsAre(-7, 100));
  EXPECT_THAT(reduce_bfloat16(Accumulation::kMax, addends), ElementsAre(2, 100));
  EXPECT_THAT(reduce_bfloat16(Accumulation::kProduct, addends), ElementsAre(-14, 9984));
}

TEST(Accumulate, SixteenBitsRoundOnce) {
  // 256 + 1 + 1 is 258 if rounded once; after each step it stays 256 (ties to even).
  EXPECT_THAT(reduce_bfloat16(Accumulation::kSum, {{256}, {1}, {1}}), ElementsAre(258));
}

TEST(Accumulate, IntegersWrapAroundAsPyTorch) {
  const std::vector<std::vector<std::int8_t>> small{{3, -1, -7, 100}, {4, 5, 2, 100}};
  EXPECT_THAT(reduce(Accumulation::kSum, DType::kInt8, small), ElementsAre(7, 4, -5, -56));
  EXPECT_THAT(reduce(Accumulation::kProduct, DType::kInt8, small), ElementsAre(12, -5, -14, 16));
  EXPECT_THAT(reduce(Accumulation::kMin, DType::kInt8, small), ElementsAre(3, -1, -7, 100));
  EXPECT_THAT(reduce(Accumulation::kMax, DType::kInt8, small), ElementsAre(4, 5, 2, 100));
  const std::vector<std::vector<std::uint8_t>> bytes{{3, 1, 7, 200}, {4, 0, 2, 200}};
  EXPECT_THAT(reduce(Accumulation::kSum, DType::kUInt8, bytes), ElementsAre(7, 1, 9, 144));
  EXPECT_THAT(reduce(Accumulation::kProduct, DType::kUInt8, bytes), ElementsAre(12, 0, 14, 64));
  const std::int64_t big = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(reduce<std::int64_t>(Accumulation::kSum, DType::kInt64, {{big, 1LL << 53}, {1, 1}}),
              ElementsAre(std::numeric_limits<std::int64_t>::min(), (1LL << 53) + 1));
  EXPECT_THAT(reduce<std::uint16_t>(Accumulation::kProduct, DType::kUInt16, {{65535}, {65535}}),
              ElementsAre(1));
  EXPECT_THAT(reduce<std::uint64_t>(Accumulation::kMax, DType::kUInt64, {{~0ULL}, {1}}),
              ElementsAre(~0ULL));
}

TEST(Accumulate, NanSurvivesOnEitherSide) {
  for (const Accumulation op : {Accumulation::kSum, Accumulation::kAvg, Accumulation::kMin,
                                Accumulation::kMax, Accumulation::kProduct}) {
    const auto out = reduce<float>(op, DType::kFloat32, {{kNan, 1, kNan}, {1, kNan, kNan}});
    for (const float value : out) EXPECT_TRUE(std::isnan(value));
    const auto wide = reduce<double>(op, DType::kFloat64, {{kNan, 1}, {1, kNan}});
    for (const double value : wide) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(Accumulate, BlocksMeetAtTheirEdges) {
  for (const std::size_t count : {0U, 1U, 1023U, 1024U, 1025U, 5000U}) {
    std::vector<std::int32_t> a(count);
    std::vector<std::int32_t> b(count);
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<std::int32_t>(i);
      b[i] = static_cast<std::int32_t>(3 * i + 1);
    }
    const auto sum = reduce<std::int32_t>(Accumulation::kSum, DType::kInt32, {a, b});
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], static_cast<std::int32_t>(4 * i + 1));
  }
}

TEST(Accumulate, KnowsItsTypes) {
  const auto wide = [](DType dtype) {
    return accumulator_dtype(Accumulation::kSum, dtype).value();
  };
  EXPECT_EQ(wide(DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(wide(DType::kFloat16), DType::kFloat32);
  EXPECT_EQ(wide(DType::kFloat32), DType::kFloat32);
  EXPECT_EQ(wide(DType::kFloat64), DType::kFloat64);
  EXPECT_EQ(wide(DType::kInt16), DType::kInt16);
  for (const DType dtype : {DType::kBool, DType::kComplex64, DType::kFloat8E4M3FN,
                            DType::kFloat8E8M0FNU, DType::kFloat4E2M1FNx2})
    EXPECT_THAT(accumulator_dtype(Accumulation::kSum, dtype),
                Fails(ErrorCode::kUnsupported,
                      "tensors of " + std::string(torch_name(dtype)) + " cannot be reduced"));
  EXPECT_THAT(accumulator_dtype(Accumulation::kAvg, DType::kInt64),
              Fails(ErrorCode::kUnsupported, "int64 tensors have no average"));
}

}  // namespace
}  // namespace shardkit
