#include "shardkit/compare/value_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "shardkit/json/parse.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  return {data, data + values.size() * sizeof(T)};
}

std::string text(const json::Value& value, std::string_view key) {
  return *value.find(key)->get_if<std::string>();
}

TEST(CompareValues, FindsWhatPyTorchFinds) {
  const std::string path = testing::source_path("src/shardkit/compare/testdata/values.json");
  const json::Value golden = json::parse(testing::read_file(path)).value();
  std::size_t compared = 0;
  for (const json::Value& each : golden.find("cases")->get_if<json::Array>()->items) {
    const DType dtype = dtype_from_torch_name(text(each, "dtype")).value();
    const Bytes first = from_hex(text(each, "first"));
    const Bytes second = from_hex(text(each, "second"));
    for (const json::Value& found : each.find("found")->get_if<json::Array>()->items) {
      const Tolerance tolerance{*found.find("atol")->get_if<double>(),
                                *found.find("rtol")->get_if<double>()};
      const ValueDifferences differences = compare_values(dtype, first, second, tolerance, 0);
      const std::string where = text(each, "dtype") + " within " +
                                std::to_string(tolerance.absolute) + ", " +
                                std::to_string(tolerance.relative);
      EXPECT_EQ(differences.count, found.find("count")->as_uint64()) << where;
      EXPECT_EQ(differences.first_position, found.find("position")->as_int64()) << where;
      const double largest = std::stod(text(found, "largest"));
      if (std::isinf(largest)) {
        EXPECT_EQ(differences.largest_error, largest) << where;
      } else {  // of complex numbers, hypot() rounds as the C library likes
        EXPECT_NEAR(differences.largest_error, largest, largest * 1e-15) << where;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 150u);
}

TEST(CompareValues, BitByBitWithoutATolerance) {
  const float nan = std::nanf("");
  const Bytes first = bytes_of<float>({0, nan, 1, 2});
  EXPECT_EQ(compare_values(DType::kFloat32, first, first, {}, 0).count, 0u);
  const Bytes second = bytes_of<float>({-0.0F, nan, 1, 2.5F});
  const ValueDifferences differences = compare_values(DType::kFloat32, first, second, {}, 10);
  EXPECT_EQ(differences.count, 2u);
  EXPECT_EQ(differences.first_position, 10);
  EXPECT_EQ(differences.largest_error, 0.5);
}

TEST(CompareValues, NaNEqualsNothingAndZeroEqualsMinusZero) {
  std::vector<float> values(5000, 1);
  values[4321] = std::nanf("");
  const Bytes run = bytes_of(values);
  const ValueDifferences nan = compare_values(DType::kFloat32, run, run, Tolerance{100, 100}, 1000);
  EXPECT_EQ(nan.count, 1u);
  EXPECT_EQ(nan.first_position, 5321);
  EXPECT_EQ(nan.largest_error, std::numeric_limits<double>::infinity());
  const Bytes zeros = bytes_of<float>({0, -0.0F});
  const Bytes others = bytes_of<float>({-0.0F, 0});
  EXPECT_EQ(compare_values(DType::kFloat32, zeros, others, Tolerance{}, 0).count, 0u);
}

TEST(CompareValues, AnInfiniteErrorMeetsNoBound) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Bytes first = bytes_of<float>({infinity, infinity, 1});
  const Bytes second = bytes_of<float>({infinity, 1, infinity});
  const ValueDifferences differences =
      compare_values(DType::kFloat32, first, second, Tolerance{0, 1}, 0);
  EXPECT_EQ(differences.count, 2u);
  EXPECT_EQ(differences.first_position, 1);
}

TEST(CompareValues, IntegersThatDoublesDoNotTellApart) {
  const std::int64_t large = std::int64_t{1} << 60;
  const Bytes first = bytes_of<std::int64_t>({large, -large});
  const Bytes second = bytes_of<std::int64_t>({large + 1, -large});
  const ValueDifferences differences =
      compare_values(DType::kInt64, first, second, Tolerance{1, 1}, 0);
  EXPECT_EQ(differences.count, 1u);
  EXPECT_EQ(differences.largest_error, 1);
}

// PyTorch cannot convert float4; its values are E2M1 of the OCP MX specification 1.0, table 5.
TEST(CompareValues, BothNumbersOfAFloat4Byte) {
  const Bytes first = from_hex("00017f");   // (0, 0) (0.5, 0) (-6, 6)
  const Bytes second = from_hex("80105f");  // (0, -0) (0, 0.5) (-6, 3)
  const ValueDifferences differences =
      compare_values(DType::kFloat4E2M1FNx2, first, second, Tolerance{}, 0);
  EXPECT_EQ(differences.count, 2u);
  EXPECT_EQ(differences.first_position, 1);
  EXPECT_EQ(differences.largest_error, 3);
  EXPECT_EQ(compare_values(DType::kFloat4E2M1FNx2, first, second, Tolerance{0.5, 0}, 0).count, 1u);
}

TEST(ValueDifferences, TheSumDoesNotDependOnTheOrder) {
  const ValueDifferences a{2, 0.5, 70, {1, 2}};
  const ValueDifferences b{3, 4, 20, {5, 6}};
  for (const auto& [first, second] : {std::pair(a, b), std::pair(b, a)}) {
    ValueDifferences sum;
    sum.add(first);
    sum.add(second);
    sum.add({});
    EXPECT_EQ(sum.count, 5u);
    EXPECT_EQ(sum.largest_error, 4);
    EXPECT_EQ(sum.first_position, 20);
    EXPECT_EQ(sum.first_values[1], 6);
  }
}

}  // namespace
}  // namespace shardkit
