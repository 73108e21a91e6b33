// The box rule, on lists that PyTorch 2.13 gave (tests/interop/box_rule compares 20,000 more).
#include "shardkit/layout/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::IsEmpty;
using testing::IsOk;

Sharding sharding_of(Dims mesh_shape, std::vector<Placement> placements, Dims shape,
                     std::vector<ShardOrder> order = {}) {
  std::int64_t cells = 1;
  for (const std::int64_t size : mesh_shape) cells *= size;
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(cells));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto mesh = DeviceMesh::make("cpu", std::move(mesh_shape), std::move(ranks)).value();
  return {std::make_shared<const DeviceMesh>(std::move(mesh)), std::move(placements),
          std::move(shape), std::move(order)};
}

Intervals rows(const Sharding& sharding, Dims coordinate, CutOrder order = CutOrder::kSpec) {
  return local_intervals(sharding, coordinate, order).at(0);
}

TEST(Sharding, ShardsByTorchChunksCeilingRule) {
  const Sharding ten = sharding_of({8}, {Shard{0}}, {10});
  EXPECT_THAT(rows(ten, {4}), ElementsAre(Interval{8, 10}));
  EXPECT_THAT(rows(ten, {5}), IsEmpty());
  EXPECT_EQ(local_shape(ten, {5}), (Dims{0}));
  const Sharding five = sharding_of({4}, {Shard{0}}, {5});  // 2, 2, 1, 0
  EXPECT_THAT(rows(five, {2}), ElementsAre(Interval{4, 5}));
  EXPECT_THAT(rows(five, {3}), IsEmpty());
}

TEST(Sharding, EachShardSplitsWhatTheEarlierOnesLeft) {
  const Sharding seven = sharding_of({2, 2}, {Shard{0}, Shard{0}}, {7, 4});  // 2, 2, 2, 1
  EXPECT_THAT(rows(seven, {0, 1}), ElementsAre(Interval{2, 4}));
  EXPECT_THAT(rows(seven, {1, 1}), ElementsAre(Interval{6, 7}));
  EXPECT_EQ(local_shape(seven, {1, 1}), (Dims{1, 4}));
  const Sharding two_dims = sharding_of({2, 2}, {Shard{1}, Shard{0}}, {3, 5});
  EXPECT_THAT(local_intervals(two_dims, {1, 0}),
              ElementsAre(ElementsAre(Interval{0, 2}), ElementsAre(Interval{3, 5})));
}

TEST(Sharding, StridedShardTakesItsPieceOfEveryGroup) {
  // The example of _StridedShard._to_replicate_tensor: 9 indices, 2 groups, 4 pieces.
  const Sharding nine = sharding_of({4}, {StridedShard{0, 2}}, {9});
  EXPECT_THAT(rows(nine, {0}), ElementsAre(Interval{0, 2}, Interval{5, 6}));
  EXPECT_THAT(rows(nine, {1}), ElementsAre(Interval{2, 4}, Interval{6, 7}));
  EXPECT_THAT(rows(nine, {2}), ElementsAre(Interval{4, 5}, Interval{7, 8}));
  EXPECT_THAT(rows(nine, {3}), ElementsAre(Interval{8, 9}));

  const Sharding fsdp_tp = sharding_of({2, 2}, {StridedShard{0, 2}, Shard{0}}, {8});
  EXPECT_THAT(rows(fsdp_tp, {0, 1}), ElementsAre(Interval{4, 6}));
  EXPECT_THAT(rows(fsdp_tp, {1, 0}), ElementsAre(Interval{2, 4}));
}

TEST(Sharding, TouchingIntervalsAreOne) {
  EXPECT_THAT(rows(sharding_of({1}, {StridedShard{0, 3}}, {9}), {0}), ElementsAre(Interval{0, 9}));
  EXPECT_THAT(rows(sharding_of({2}, {StridedShard{0, 9}}, {9}), {0}), ElementsAre(Interval{0, 9}));
  EXPECT_THAT(rows(sharding_of({2}, {StridedShard{0, 9}}, {9}), {1}), IsEmpty());
}

TEST(Sharding, AStoredShardOrderIsObeyed) {
  const Sharding inner_first =
      sharding_of({2, 3}, {Shard{0}, Shard{0}}, {7}, {ShardOrder{0, {1, 0}}});
  EXPECT_THAT(rows(inner_first, {1, 0}), ElementsAre(Interval{2, 3}));  // chunk 1 of 0-2
  EXPECT_THAT(rows(inner_first, {0, 1}), ElementsAre(Interval{3, 5}));
  EXPECT_THAT(rows(inner_first, {1, 2}), IsEmpty());
}

TEST(Sharding, ReplicateAndPartialCutNothing) {
  const Sharding both = sharding_of({2, 2}, {Replicate{}, Partial{}}, {4, 3});
  EXPECT_THAT(local_intervals(both, {1, 1}),
              ElementsAre(ElementsAre(Interval{0, 4}), ElementsAre(Interval{0, 3})));
  const Sharding scalar = sharding_of({2}, {Replicate{}}, {});
  EXPECT_THAT(check_sharding(scalar), IsOk());
  EXPECT_THAT(local_intervals(scalar, {1}), IsEmpty());
  EXPECT_EQ(cut_into_boxes(local_intervals(scalar, {1})).size(), 1U);
}

TEST(Sharding, PhysicalOrderCutsTensorParallelShardsFirst) {
  // FSDP2 of PyTorch 2.13 over 9 rows on (dp 4, tp 2): (3, 0) stores nothing, (3, 1) row 8,
  // though the placements say the opposite.
  const Sharding nine = sharding_of({4, 2}, {StridedShard{0, 2}, Shard{0}}, {9});
  EXPECT_THAT(rows(nine, {3, 0}, CutOrder::kPhysical), IsEmpty());
  EXPECT_THAT(rows(nine, {3, 1}, CutOrder::kPhysical), ElementsAre(Interval{8, 9}));
  EXPECT_THAT(rows(nine, {3, 0}, CutOrder::kSpec), ElementsAre(Interval{8, 9}));
  EXPECT_THAT(rows(nine, {3, 1}, CutOrder::kSpec), IsEmpty());
}

TEST(Sharding, HugeDimensionsCostNothing) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const Sharding sharding = sharding_of({1000}, {Shard{0}}, {huge});
  const std::int64_t full = huge / 1000 + 1;
  EXPECT_THAT(rows(sharding, {999}), ElementsAre(Interval{999 * full, huge}));
  const Sharding strided = sharding_of({3}, {StridedShard{0, 65536}}, {huge});
  EXPECT_EQ(size(rows(strided, {2})), local_shape(strided, {2})[0]);
  EXPECT_EQ(rows(strided, {2}).size(), 65536U);
}

TEST(Sharding, SizesAgreeWithIntervals) {
  for (std::int64_t length = 0; length < 40; ++length)
    for (std::int64_t groups = 1; groups < 8; ++groups) {
      const Sharding sharding = sharding_of({3, 2}, {StridedShard{0, groups}, Shard{0}}, {length});
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j < 2; ++j)
          for (const CutOrder order : {CutOrder::kSpec, CutOrder::kPhysical})
            EXPECT_EQ(size(rows(sharding, {i, j}, order)), local_shape(sharding, {i, j}, order)[0]);
    }
}

TEST(CheckSharding, RefusesWhatMeansNothing) {
  EXPECT_THAT(check_sharding(sharding_of({2, 2}, {Shard{0}}, {4})),
              Fails(ErrorCode::kCorrupt, "expected 2, found 1"));
  EXPECT_THAT(check_sharding(sharding_of({2}, {Shard{1}}, {4})),
              Fails(ErrorCode::kCorrupt, "found S(1)"));
  EXPECT_THAT(check_sharding(sharding_of({2}, {Shard{-1}}, {4})),
              Fails(ErrorCode::kCorrupt, "found S(-1)"));
  EXPECT_THAT(check_sharding(sharding_of({2}, {Shard{0}}, {})),
              Fails(ErrorCode::kCorrupt, "does not have"));
  EXPECT_THAT(check_sharding(sharding_of({2}, {StridedShard{0, 0}}, {4})),
              Fails(ErrorCode::kCorrupt, "less than 1"));
  EXPECT_THAT(check_sharding(sharding_of({2}, {StridedShard{0, 65537}}, {4})),
              Fails(ErrorCode::kLimit, "at most 65536"));
  EXPECT_THAT(
      check_sharding(sharding_of({2, 2}, {StridedShard{0, 65536}, StridedShard{1, 2}}, {4, 4})),
      Fails(ErrorCode::kLimit, "found _S(1, 2)"));
  EXPECT_THAT(check_sharding(sharding_of({2}, {Shard{0}}, {-4})),
              Fails(ErrorCode::kCorrupt, "found [-4]"));
  EXPECT_THAT(check_sharding(Sharding{}), Fails(ErrorCode::kInternal, "no mesh"));
}

TEST(CheckSharding, PartialsMayMixOnlySumWithAvg) {
  EXPECT_THAT(check_sharding(sharding_of({2, 2}, {Partial{}, Partial{ReduceOp::kAvg}}, {4})),
              IsOk());
  EXPECT_THAT(check_sharding(sharding_of({2, 2}, {Partial{}, Partial{ReduceOp::kMax}}, {4})),
              Fails(ErrorCode::kUnsupported, "sum and max"));
}

TEST(CheckSharding, AShardOrderMustFitThePlacements) {
  const auto check = [](std::vector<ShardOrder> order, Placement first = Shard{0}) {
    return check_sharding(
        sharding_of({2, 2, 2}, {first, Shard{0}, Shard{1}}, {4, 4}, std::move(order)));
  };
  EXPECT_THAT(check({{0, {1, 0}}, {1, {2}}}), IsOk());
  EXPECT_THAT(check({{0, {1, 0}}}), Fails(ErrorCode::kCorrupt, "leaves out a mesh dimension"));
  EXPECT_THAT(check({{0, {1, 1, 0}}, {1, {2}}}), Fails(ErrorCode::kCorrupt, "does not fit"));
  EXPECT_THAT(check({{0, {1, 2}}, {1, {0}}}), Fails(ErrorCode::kCorrupt, "does not fit"));
  EXPECT_THAT(check({{0, {1, 7}}, {1, {2}}}), Fails(ErrorCode::kCorrupt, "mesh dimension 7"));
  EXPECT_THAT(check({{1, {2}}, {0, {1, 0}}}), Fails(ErrorCode::kCorrupt, "do not ascend"));
  EXPECT_THAT(check({{0, {0, 1}}, {1, {2}}}, StridedShard{0, 2}), IsOk());
  EXPECT_THAT(check({{0, {1, 0}}, {1, {2}}}, StridedShard{0, 2}),
              Fails(ErrorCode::kUnsupported, "_StridedShard"));
}

}  // namespace
}  // namespace shardkit
