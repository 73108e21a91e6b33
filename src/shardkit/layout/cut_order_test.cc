// decide_cut_order: which bytes FSDP2 and DTensor store, told apart by the ranks' local shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "shardkit/layout/sharding.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

Sharding sharding_of(Dims mesh_shape, std::vector<Placement> placements, Dims shape) {
  std::int64_t cells = 1;
  for (const std::int64_t size : mesh_shape) cells *= size;
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(cells));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto mesh = DeviceMesh::make("cpu", std::move(mesh_shape), std::move(ranks)).value();
  return {std::make_shared<const DeviceMesh>(std::move(mesh)),
          std::move(placements),
          std::move(shape),
          {}};
}

// What every rank would record if the bytes followed `order`.
std::vector<LocalShape> recorded(const Sharding& sharding, CutOrder order) {
  std::vector<LocalShape> known;
  for (const std::int64_t rank : sharding.mesh->ranks()) {
    const Dims coordinate = *sharding.mesh->coordinate_of(rank);
    known.push_back({coordinate, local_shape(sharding, coordinate, order)});
  }
  return known;
}

bool same_elements(const Sharding& sharding) {
  for (const std::int64_t rank : sharding.mesh->ranks()) {
    const Dims at = *sharding.mesh->coordinate_of(rank);
    if (local_intervals(sharding, at, CutOrder::kSpec) !=
        local_intervals(sharding, at, CutOrder::kPhysical))
      return false;
  }
  return true;
}

TEST(DecideCutOrder, RecognisesWhatFsdp2StoresOverUnevenTensorParallelism) {
  const Sharding nine = sharding_of({4, 2}, {StridedShard{0, 2}, Shard{0}}, {9, 3});
  // Local rows of FSDP2 in PyTorch 2.13, mesh row by mesh row.
  std::vector<LocalShape> stored;
  const std::int64_t rows[4][2] = {{2, 1}, {2, 1}, {1, 1}, {0, 1}};
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 2; ++j) stored.push_back({{i, j}, {rows[i][j], 3}});
  EXPECT_EQ(decide_cut_order(nine, stored).value(), CutOrder::kPhysical);
  EXPECT_EQ(decide_cut_order(nine, recorded(nine, CutOrder::kSpec)).value(), CutOrder::kSpec);
}

TEST(DecideCutOrder, TwoShardsAreAlwaysToldApart) {
  for (const std::int64_t dp : {2, 3, 4, 8})
    for (const std::int64_t tp : {2, 3, 4, 8})
      for (std::int64_t length = 0; length < 100; ++length) {
        const Sharding sharding = sharding_of({dp, tp}, {StridedShard{0, tp}, Shard{0}}, {length});
        const CutOrder expected = same_elements(sharding) ? CutOrder::kSpec : CutOrder::kPhysical;
        const auto physical = decide_cut_order(sharding, recorded(sharding, CutOrder::kPhysical));
        ASSERT_THAT(physical, IsOk()) << dp << " x " << tp << ", " << length;
        EXPECT_EQ(*physical, expected) << dp << " x " << tp << ", " << length;
        const auto spec = decide_cut_order(sharding, recorded(sharding, CutOrder::kSpec));
        ASSERT_THAT(spec, IsOk());
        EXPECT_EQ(*spec, CutOrder::kSpec);
        if (length % (dp * tp) == 0) {
          EXPECT_TRUE(same_elements(sharding));
        }
      }
}

TEST(DecideCutOrder, OneRankMayNotDecide) {
  // Of 27 rows on (dp 3, tp 4) some rank's size fits both orders while its rows differ.
  const Sharding sharding = sharding_of({3, 4}, {StridedShard{0, 4}, Shard{0}}, {27});
  bool ambiguous = false;
  for (const LocalShape& one : recorded(sharding, CutOrder::kPhysical)) {
    const auto decided = decide_cut_order(sharding, std::vector<LocalShape>{one});
    if (decided.ok()) {
      EXPECT_EQ(*decided, CutOrder::kPhysical);
      continue;
    }
    EXPECT_THAT(decided, Fails(ErrorCode::kIncomplete, "orders that hold different elements"));
    ambiguous = ambiguous || local_intervals(sharding, one.coordinate, CutOrder::kSpec) !=
                                 local_intervals(sharding, one.coordinate, CutOrder::kPhysical);
  }
  EXPECT_TRUE(ambiguous);
  EXPECT_EQ(decide_cut_order(sharding, recorded(sharding, CutOrder::kPhysical)).value(),
            CutOrder::kPhysical);
}

TEST(DecideCutOrder, ThreeUnevenShardsMayBeUndecidable) {
  const Sharding nine = sharding_of({2, 2, 3}, {StridedShard{0, 6}, Shard{0}, Shard{0}}, {9});
  EXPECT_THAT(decide_cut_order(nine, recorded(nine, CutOrder::kPhysical)),
              Fails(ErrorCode::kIncomplete, "cannot tell how dimension 0 was cut"));
  const Sharding even = sharding_of({2, 2, 3}, {StridedShard{0, 6}, Shard{0}, Shard{0}}, {24});
  EXPECT_TRUE(same_elements(even));
  EXPECT_EQ(decide_cut_order(even, recorded(even, CutOrder::kSpec)).value(), CutOrder::kSpec);
}

TEST(DecideCutOrder, AnOrderThatNothingIsKnownToStoreIsRefused) {
  const Sharding sharding = sharding_of({2, 3, 2}, {StridedShard{0, 6}, Shard{0}, Shard{0}}, {14});
  // Rows by plain shards over mesh dims 2, 0, 1; neither the placements nor FSDP2 have that order.
  std::vector<LocalShape> stored;
  for (const std::int64_t rank : sharding.mesh->ranks()) {
    const Dims at = *sharding.mesh->coordinate_of(rank);
    std::int64_t rows = 14;
    for (const auto& [mesh_dim, pieces] : {std::pair{2, 2}, std::pair{0, 2}, std::pair{1, 3}}) {
      const std::int64_t chunk = (rows + pieces - 1) / pieces;
      rows =
          std::clamp(rows - chunk * at[static_cast<std::size_t>(mesh_dim)], std::int64_t{0}, chunk);
    }
    stored.push_back({at, {rows}});
  }
  EXPECT_THAT(decide_cut_order(sharding, stored),
              Fails(ErrorCode::kIncomplete, "only an unknown order of shards fits"));
}

TEST(DecideCutOrder, DimensionsOfOneTensorFollowOneOrder) {
  const Sharding sharding = sharding_of(
      {4, 2, 4, 2}, {StridedShard{0, 2}, Shard{0}, StridedShard{1, 2}, Shard{1}}, {9, 9});
  std::vector<LocalShape> mixed = recorded(sharding, CutOrder::kSpec);
  const std::vector<LocalShape> physical = recorded(sharding, CutOrder::kPhysical);
  for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i].shape[1] = physical[i].shape[1];
  EXPECT_THAT(decide_cut_order(sharding, mixed),
              Fails(ErrorCode::kIncomplete,
                    "dimension 1 was cut: it follows another order than an earlier dimension"));
}

TEST(DecideCutOrder, TooManyUnevenShardsToTryAreRefused) {
  const Sharding sharding = sharding_of(
      {2, 2, 2, 2, 2, 2, 2},
      {StridedShard{0, 64}, Shard{0}, Shard{0}, Shard{0}, Shard{0}, Shard{0}, Shard{0}}, {129});
  EXPECT_THAT(decide_cut_order(sharding, recorded(sharding, CutOrder::kSpec)),
              Fails(ErrorCode::kIncomplete, "7 shards do not divide it"));
}

TEST(DecideCutOrder, NeverNamesAnOrderThatHoldsOtherElements) {
  int decided = 0;
  int refused = 0;
  for (std::int64_t length = 0; length < 120; ++length)
    for (const Dims& mesh : {Dims{2, 2, 3}, Dims{3, 2, 2}, Dims{2, 3, 2}, Dims{4, 2, 2}}) {
      const Sharding sharding =
          sharding_of(mesh, {StridedShard{0, mesh[1] * mesh[2]}, Shard{0}, Shard{0}}, {length});
      for (const CutOrder stored : {CutOrder::kSpec, CutOrder::kPhysical}) {
        const auto order = decide_cut_order(sharding, recorded(sharding, stored));
        ++(order.ok() ? decided : refused);
        if (!order.ok()) continue;
        for (const LocalShape& rank : recorded(sharding, stored))
          EXPECT_EQ(local_intervals(sharding, rank.coordinate, *order),
                    local_intervals(sharding, rank.coordinate, stored))
              << length << " on " << to_string(mesh);
      }
    }
  EXPECT_GT(decided, 200);
  EXPECT_GT(refused, 20);
}

TEST(DecideCutOrder, SplitFactorsThatFsdp2DoesNotWriteFollowThePlacements) {
  for (const Sharding& sharding : {sharding_of({2, 2}, {StridedShard{0, 3}, Shard{0}}, {12}),
                                   sharding_of({2, 2}, {Shard{0}, StridedShard{0, 2}}, {12}),
                                   sharding_of({2, 2}, {StridedShard{0, 2}, Replicate{}}, {8})}) {
    EXPECT_FALSE(same_elements(sharding));
    EXPECT_EQ(decide_cut_order(sharding, recorded(sharding, CutOrder::kSpec)).value(),
              CutOrder::kSpec);
  }
  // FSDP2 over a tensor-parallel _StridedShard stores what no placement says.
  const Sharding fused = sharding_of({2, 2}, {StridedShard{0, 2}, StridedShard{0, 3}}, {24});
  EXPECT_THAT(decide_cut_order(fused, recorded(fused, CutOrder::kSpec)),
              Fails(ErrorCode::kIncomplete, "stand for no order of plain shards"));
  // A shard order spelled with _StridedShards: mesh dims 2, 0, 1 in that order.
  const Sharding spelled =
      sharding_of({2, 2, 2}, {StridedShard{0, 2}, StridedShard{0, 2}, Shard{0}}, {16});
  EXPECT_EQ(decide_cut_order(spelled, recorded(spelled, CutOrder::kSpec)).value(), CutOrder::kSpec);
}

TEST(DecideCutOrder, ARankWithoutElementsMayRecordNoRows) {
  // FSDP2 of PyTorch 2.13 over 2 columns on 3 tensor-parallel ranks: the third holds [1, 0] and
  // records [0, 0].
  const Sharding two = sharding_of({2, 3}, {Shard{0}, Shard{1}}, {2, 2});
  EXPECT_EQ(
      decide_cut_order(two, std::vector<LocalShape>{{{0, 0}, {1, 1}}, {{0, 2}, {0, 0}}}).value(),
      CutOrder::kSpec);
  EXPECT_THAT(decide_cut_order(two, std::vector<LocalShape>{{{0, 1}, {0, 0}}}),
              Fails(ErrorCode::kIncomplete, "expected 1 in dimension 0"));

  // Nothing at all to cut: FSDP2 records no rows on any rank of a [73, 0] tensor.
  const Sharding none = sharding_of({3, 2}, {StridedShard{0, 2}, Shard{0}}, {73, 0});
  EXPECT_EQ(
      decide_cut_order(none, std::vector<LocalShape>{{{0, 0}, {0, 0}}, {{0, 1}, {0, 0}}}).value(),
      CutOrder::kSpec);
  EXPECT_THAT(decide_cut_order(none, std::vector<LocalShape>{{{0, 1}, {13, 1}}}),
              Fails(ErrorCode::kIncomplete, "expected no elements"));
}

TEST(DecideCutOrder, AShapeThatFitsNothingNamesItsCoordinate) {
  const Sharding plain = sharding_of({2}, {Shard{0}}, {5, 2});
  EXPECT_THAT(decide_cut_order(plain, std::vector<LocalShape>{{{0}, {3, 2}}, {{1}, {3, 2}}}),
              Fails(ErrorCode::kIncomplete,
                    "expected 2 in dimension 0 at mesh coordinate [1], found local shape [3, 2]"));
  EXPECT_THAT(decide_cut_order(plain, std::vector<LocalShape>{{{0}, {3}}}),
              Fails(ErrorCode::kIncomplete, "another number of dimensions"));
  const Sharding nine = sharding_of({4, 2}, {StridedShard{0, 2}, Shard{0}}, {9});
  EXPECT_THAT(decide_cut_order(nine, std::vector<LocalShape>{{{3, 0}, {5}}}),
              Fails(ErrorCode::kIncomplete, "expected 1 or 0 in dimension 0"));
  EXPECT_THAT(decide_cut_order(nine, std::vector<LocalShape>{{{3, 0}, {1}}, {{3, 1}, {1}}}),
              Fails(ErrorCode::kIncomplete, "follow different orders"));
}

}  // namespace
}  // namespace shardkit
