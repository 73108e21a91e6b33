#include "shardkit/merge/compare_with_reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::IsOk;

/// A checkpoint of one rank that holds one whole tensor in memory.
MergeSource source_of(const Tensor& tensor) {
  CatalogTensor whole_tensor;
  whole_tensor.name = "w";
  whole_tensor.dtype = tensor.dtype;
  whole_tensor.shape = tensor.shape;
  if (tensor.numel() > 0)
    whole_tensor.pieces = {{whole(tensor.shape), tensor.strides, tensor.offset, tensor.storage}};
  Catalog catalog;
  catalog.world_size = 1;
  catalog.tensors = {whole_tensor};
  MergeSource source;
  source.catalog = std::make_shared<const Catalog>(std::move(catalog));
  return source;
}

Result<std::vector<Difference>> compare(const Tensor& merged, const Tensor& reference) {
  const MergeSource source = source_of(merged);
  OutputChoices choices;
  choices.dtype.kind = hf::DTypeChoice::Kind::kKeep;
  SHARDKIT_ASSIGN(const OutputDecision decision,
                  decide_output(posix_file_system(), source, choices, TensorBytes::kRead));
  TransferOptions options;
  options.threads = 3;
  const Value state = testing::make_dict({{"w", reference}});
  return compare_with_reference(posix_file_system(), source, decision, *state.get_if<Dict>(),
                                options);
}

TEST(CompareWithReference, TheFirstOfTheDifferencesInManyBlocks) {
  const std::int64_t rows = 4 * static_cast<std::int64_t>(kBlockBytes) / 16;
  std::vector<float> values(static_cast<std::size_t>(rows) * 4, 1);
  const Tensor merged = testing::float_tensor({rows, 4}, values);
  const auto same = compare(merged, testing::float_tensor({rows, 4}, values));
  ASSERT_THAT(same, IsOk());
  EXPECT_TRUE(same->empty());
  const std::size_t block = kBlockBytes / sizeof(float);
  for (const std::size_t at : {3 * block, 2 * block - 1, 2 * block}) values[at] = 2;
  const auto other = compare(merged, testing::float_tensor({rows, 4}, values));
  ASSERT_THAT(other, IsOk());
  ASSERT_EQ(other->size(), 1u);
  EXPECT_EQ((*other)[0].what, "other bytes at [" + std::to_string(rows / 2 - 1) + ", 3]");
}

TEST(CompareWithReference, ComparesBits) {
  const float nan = std::nanf("");
  const float other_nan = std::bit_cast<float>(std::bit_cast<std::uint32_t>(nan) | 1u);
  const Tensor merged = testing::float_tensor({2}, {0, nan});
  EXPECT_TRUE(compare(merged, testing::float_tensor({2}, {0, nan})).value().empty());
  EXPECT_EQ(compare(merged, testing::float_tensor({2}, {-0.0F, nan})).value()[0].what,
            "other bytes at [0]");
  EXPECT_EQ(compare(merged, testing::float_tensor({2}, {0, other_nan})).value()[0].what,
            "other bytes at [1]");
}

TEST(CompareWithReference, TensorsWithoutElementsOrDimensions) {
  const Tensor empty = testing::float_tensor({0, 3}, {});
  EXPECT_TRUE(compare(empty, empty).value().empty());
  EXPECT_EQ(compare(empty, testing::float_tensor({3, 0}, {})).value()[0].what,
            "shape [0, 3] against [3, 0]");
  const Tensor scalar = testing::float_tensor({}, {1});
  EXPECT_TRUE(compare(scalar, testing::float_tensor({}, {1})).value().empty());
  EXPECT_EQ(compare(scalar, testing::float_tensor({}, {2})).value()[0].what, "other bytes at []");
}

}  // namespace
}  // namespace shardkit
