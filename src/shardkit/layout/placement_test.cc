// Placement: spellings, as str() of PyTorch 2.13's placements gives them.
#include "shardkit/layout/placement.h"

#include <gtest/gtest.h>

namespace shardkit {
namespace {

TEST(Placement, IsSpelledAsPyTorchSpellsIt) {
  EXPECT_EQ(to_string(Placement(Shard{1})), "S(1)");
  EXPECT_EQ(to_string(Placement(StridedShard{0, 2})), "_S(0, 2)");
  EXPECT_EQ(to_string(Placement(Replicate{})), "R");
  EXPECT_EQ(to_string(Placement(Partial{ReduceOp::kAvg})), "P(avg)");
}

TEST(Placement, KnowsWhatItCuts) {
  EXPECT_EQ(sharded_dim(Shard{3}), 3);
  EXPECT_EQ(sharded_dim(StridedShard{2, 4}), 2);
  EXPECT_EQ(sharded_dim(Replicate{}), std::nullopt);
  EXPECT_EQ(sharded_dim(Partial{}), std::nullopt);
}

TEST(Placement, ReduceOpsHaveNames) {
  EXPECT_EQ(reduce_op_from_name("sum"), ReduceOp::kSum);
  EXPECT_EQ(reduce_op_from_name("avg"), ReduceOp::kAvg);
  EXPECT_EQ(reduce_op_from_name("min"), ReduceOp::kMin);
  EXPECT_EQ(reduce_op_from_name("max"), ReduceOp::kMax);
  EXPECT_EQ(reduce_op_from_name("product"), ReduceOp::kProduct);
  EXPECT_EQ(reduce_op_from_name("bor"), std::nullopt);
}

}  // namespace
}  // namespace shardkit
