#include "shardkit/merge/merge_to_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "shardkit/state/memory.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

/// A tensor of 4 columns in two shards of rows, in memory.
std::shared_ptr<const Catalog> two_shards(const Tensor& whole_tensor, std::int64_t first_rows,
                                          std::int64_t second_begin) {
  CatalogTensor tensor;
  tensor.name = "w";
  tensor.dtype = whole_tensor.dtype;
  tensor.shape = whole_tensor.shape;
  const std::int64_t rows = whole_tensor.shape[0];
  for (const auto& [begin, end] : {std::pair(std::int64_t{0}, first_rows), {second_begin, rows}})
    tensor.pieces.push_back(
        {Box{{begin, 0}, {end - begin, 4}}, {4, 1}, begin * 4, whole_tensor.storage});
  auto catalog = std::make_shared<Catalog>();
  catalog->world_size = 2;
  catalog->tensors = {tensor};
  return catalog;
}

Result<Tensor> merged(const std::shared_ptr<const Catalog>& catalog, DType dtype) {
  TransferOptions options;
  options.threads = 3;
  return merge_to_memory(posix_file_system(), catalog, 0, dtype, ReplicaPolicy::kCompare, options);
}

TEST(MergeToMemory, ManyBlocksAndThreads) {
  const std::int64_t rows = 3 * static_cast<std::int64_t>(kBlockBytes) / 16 + 5;
  std::vector<float> values(static_cast<std::size_t>(rows) * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 65521);
  const auto tensor =
      merged(two_shards(testing::float_tensor({rows, 4}, values), 7, 7), DType::kFloat32);
  ASSERT_THAT(tensor, IsOk());
  const auto* data = reinterpret_cast<const float*>(first_element(*tensor).value());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), data));
}

TEST(MergeToMemory, CastsAsAMergeDoes) {
  const Tensor stored = testing::float_tensor({2, 4}, {1, 2, 3, 4, 5, 6, 7, 1.00390625});
  const auto tensor = merged(two_shards(stored, 1, 1), DType::kBFloat16);
  ASSERT_THAT(tensor, IsOk());
  const auto* data = reinterpret_cast<const std::uint16_t*>(first_element(*tensor).value());
  // 1 + 2^-8 lies half way between two bfloat16 and rounds to the even one, 1.
  const std::vector<std::uint16_t> expected = {0x3f80, 0x4000, 0x4040, 0x4080,
                                               0x40a0, 0x40c0, 0x40e0, 0x3f80};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), data));
}

TEST(MergeToMemory, RefusesWhatItCannotProve) {
  const Tensor whole_tensor = testing::float_tensor({3, 4}, std::vector<float>(12));
  EXPECT_THAT(merged(two_shards(whole_tensor, 1, 2), DType::kFloat32),
              Fails(ErrorCode::kIncomplete, "tensor 'w'"));
  EXPECT_THAT(merged(two_shards(whole_tensor, 2, 1), DType::kFloat32),
              Fails(ErrorCode::kIncomplete, "tensor 'w'"));
  EXPECT_THAT(merged(two_shards(whole_tensor, 1, 1), DType::kInt32),
              Fails(ErrorCode::kUnsupported, "no cast between these dtypes"));
}

}  // namespace
}  // namespace shardkit
