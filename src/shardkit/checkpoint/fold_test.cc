// Tests of what a fold refuses; transfer/fold_reader_test.cc has what it computes.
#include "shardkit/checkpoint/fold.h"

#include <gtest/gtest.h>

#include "shardkit/checkpoint/catalog.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

CatalogTensor tensor_of(std::string name, Dims shape) {
  CatalogTensor tensor;
  tensor.name = std::move(name);
  tensor.shape = std::move(shape);
  return tensor;
}

std::shared_ptr<const CatalogTensor> part(std::string name, Dims shape) {
  return std::make_shared<const CatalogTensor>(tensor_of(std::move(name), std::move(shape)));
}

Fold fold_of(Dims a, Dims b) {
  Fold fold;
  fold.a = part("a", std::move(a));
  fold.b = part("b", std::move(b));
  return fold;
}

TEST(FoldShape, ARankHasALimit) {
  const CatalogTensor weight = tensor_of("w", {3, 2});
  EXPECT_THAT(fold_shape(weight, fold_of({65536, 2}, {3, 65536})), IsOk());
  EXPECT_THAT(fold_shape(weight, fold_of({65537, 2}, {3, 65537})),
              Fails(ErrorCode::kUnsupported,
                    "the rank of LoRA is too high: tensor 'w', expected at most 65536, found 6"));
}

TEST(FoldShape, DoraHasAMagnitudeForEachRow) {
  Fold fold = fold_of({1, 2}, {3, 1});
  fold.magnitude = part("m", {3});
  EXPECT_THAT(fold_shape(tensor_of("w", {3, 2}), fold), IsOk());
  fold.magnitude = part("m", {2});
  EXPECT_THAT(fold_shape(tensor_of("w", {3, 2}), fold),
              Fails(ErrorCode::kIncomplete,
                    "DoRA's magnitudes are not one for each row of the "
                    "weight: tensor 'm', expected [3], found [2]"));
}

TEST(FoldShape, DoraIsOfMatricesAsTheyAreStored) {
  std::pair<CatalogTensor, Fold> refused[] = {
      {tensor_of("transposed", {2, 3}), fold_of({1, 2}, {3, 1})},
      {tensor_of("convolution", {3, 2, 5}), fold_of({1, 2, 5}, {3, 1, 1})},
      {tensor_of("experts", {2, 3, 2}), fold_of({2, 2}, {3, 2})}};
  refused[0].second.transposed = true;
  refused[2].second.experts = 2;
  for (auto& [weight, fold] : refused) {
    EXPECT_THAT(fold_shape(weight, fold), IsOk()) << weight.name;
    fold.magnitude = part("m", {3});
    EXPECT_THAT(fold_shape(weight, fold),
                Fails(ErrorCode::kUnsupported,
                      "transposed weight is not folded: tensor '" + weight.name + "'"));
  }
}

}  // namespace
}  // namespace shardkit
