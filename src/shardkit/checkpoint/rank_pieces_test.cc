#include "shardkit/checkpoint/rank_pieces.h"

#include <gtest/gtest.h>

#include "shardkit/checkpoint/rank_order.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

// A guard: the catalog's builder adds each rank once.
TEST(MakeDtensorPieces, ARankThatIsThereTwiceIsOurMistake) {
  const Tensor rows = testing::float_tensor({2}, {1, 2});
  const ViewLayout layout{rows.shape, rows.strides};
  MeshGroup group{testing::make_sharding({2}, {0, 1}, {Shard{0}}, {4}), {}};
  for (const std::int32_t rank : {0, 1, 1}) group.ranks.push_back({rank, &layout, 0, rows.storage});
  CatalogTensor tensor;
  tensor.name = "w";
  tensor.shape = {4};
  std::size_t most_pieces = 100;
  EXPECT_THAT(make_dtensor_pieces({group}, 2, {}, RankOrder::kMeshArray, most_pieces, tensor),
              testing::Fails(ErrorCode::kInternal,
                             "a device mesh has a rank that was added twice: tensor 'w'"));
}

}  // namespace
}  // namespace shardkit
