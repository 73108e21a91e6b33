#include "shardkit/merge/comparable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "shardkit/compare/catalog_of.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::float_tensor;
using testing::IsOk;
using testing::make_dict;

using Items = std::initializer_list<std::pair<std::string, Value>>;

Comparable side(Items items) {
  const Value state = make_dict(items);
  Comparable made;
  made.catalog = std::make_shared<const Catalog>(catalog_of(*state.get_if<Dict>()).value());
  return made;
}

std::vector<DifferenceKind> differences(const Comparable& first, const Comparable& second) {
  const auto comparison =
      compare(posix_file_system(), first, second, {hf::DTypeChoice::Kind::kCast, DType::kBFloat16},
              ComparisonOptions());
  EXPECT_THAT(comparison, IsOk());
  std::vector<DifferenceKind> kinds;
  for (const TensorDifference& difference : comparison->differences)
    kinds.push_back(difference.kind);
  return kinds;
}

TEST(Compare, ScalesOfEightBitFloatsAreNotRounded) {
  const Value weight = testing::make_tensor<std::uint8_t>(DType::kFloat8E4M3FN, {2}, {1, 2});
  // Both are 1 in bfloat16.
  const Value scale = float_tensor({1}, {1.0f});
  const Value other = float_tensor({1}, {1.0009765625f});
  const Value rounded = testing::make_tensor<std::uint16_t>(DType::kBFloat16, {1}, {0x3f80});
  const Comparable stored = side({{"w", weight}, {"w_scale_inv", scale}});
  EXPECT_THAT(differences(stored, side({{"w", weight}, {"w_scale_inv", other}})),
              ::testing::ElementsAre(DifferenceKind::kValues));
  EXPECT_THAT(differences(stored, side({{"w", weight}, {"w_scale_inv", rounded}})),
              ::testing::ElementsAre(DifferenceKind::kDType));
  EXPECT_THAT(differences(side({{"w", scale}, {"w_scale_inv", scale}}),
                          side({{"w", scale}, {"w_scale_inv", other}})),
              ::testing::IsEmpty());
}

}  // namespace
}  // namespace shardkit
