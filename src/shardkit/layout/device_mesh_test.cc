// DeviceMesh: what it refuses, and where its ranks stand.
#include "shardkit/layout/device_mesh.h"

#include <gtest/gtest.h>

#include <limits>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;

TEST(DeviceMesh, RefusesWhatIsNoGrid) {
  const auto make = [](Dims shape, std::vector<std::int64_t> ranks,
                       std::vector<std::string> names = {}) {
    return DeviceMesh::make("cpu", std::move(shape), std::move(ranks), std::move(names));
  };
  EXPECT_THAT(make({2, 2}, {0, 1, 2}), Fails(ErrorCode::kCorrupt, "expected 4 ranks, found 3"));
  EXPECT_THAT(make({2, 0}, {}), Fails(ErrorCode::kCorrupt, "mesh shape [2, 0]"));
  EXPECT_THAT(make({-1, -2}, {0, 1}), Fails(ErrorCode::kCorrupt, "without ranks"));
  EXPECT_THAT(make({2}, {0, 0}), Fails(ErrorCode::kCorrupt, "found rank 0"));
  EXPECT_THAT(make({2}, {0, -1}), Fails(ErrorCode::kCorrupt, "negative rank"));
  EXPECT_THAT(make({2}, {0, 1}, {"a", "b"}), Fails(ErrorCode::kCorrupt, "expected 1 names"));
  EXPECT_THAT(make({std::numeric_limits<std::int64_t>::max(), 4}, {0}),
              Fails(ErrorCode::kCorrupt, "does not overflow"));
}

TEST(DeviceMesh, FindsRanksByTheArrayAndNotByTheirNumber) {
  // torch.distributed.DeviceMesh("cpu", [[4, 0, 7], [2, 9, 1]]).get_coordinate() on each rank.
  const DeviceMesh mesh = DeviceMesh::make("cpu", {2, 3}, {4, 0, 7, 2, 9, 1}).value();
  EXPECT_EQ(mesh.coordinate_of(4), (Dims{0, 0}));
  EXPECT_EQ(mesh.coordinate_of(7), (Dims{0, 2}));
  EXPECT_EQ(mesh.coordinate_of(2), (Dims{1, 0}));
  EXPECT_EQ(mesh.coordinate_of(1), (Dims{1, 2}));
  EXPECT_EQ(mesh.coordinate_of(3), std::nullopt);
  EXPECT_EQ(mesh.coordinate_of(-1), std::nullopt);
  EXPECT_EQ(DeviceMesh::make("cpu", {}, {5}).value().coordinate_of(5), Dims{});
}

TEST(DeviceMesh, NamesDoNotTellMeshesApart) {
  const DeviceMesh a = DeviceMesh::make("cuda", {2, 1}, {0, 1}, {"ddp", "fsdp"}).value();
  EXPECT_EQ(a, DeviceMesh::make("cuda", {2, 1}, {0, 1}).value());
  EXPECT_FALSE(a == DeviceMesh::make("cuda", {1, 2}, {0, 1}).value());
  EXPECT_FALSE(a == DeviceMesh::make("cuda", {2, 1}, {1, 0}).value());
  EXPECT_FALSE(a == DeviceMesh::make("cpu", {2, 1}, {0, 1}).value());
}

TEST(DeviceMesh, IsPrintedForPeople) {
  const auto print = [](Dims shape, std::vector<std::int64_t> ranks,
                        std::vector<std::string> names = {}) {
    return to_string(
        DeviceMesh::make("cpu", std::move(shape), std::move(ranks), std::move(names)).value());
  };
  EXPECT_EQ(print({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}, {"ddp", "fsdp"}),
            "2x4 (ddp, fsdp) of ranks 0-7");
  EXPECT_EQ(print({2, 2}, {0, 2, 1, 3}), "2x2 of ranks 0,2,1,3");
  EXPECT_EQ(print({1}, {3}, {"tp"}), "1 (tp) of rank 3");
  EXPECT_EQ(print({}, {0}), "0-d mesh of rank 0");
}

// The positions are what torch.distributed.get_group_rank says of the groups of these meshes.
TEST(DeviceMesh, GroupPositionsAreThoseOfSortedLines) {
  const DeviceMesh mesh = DeviceMesh::make("cpu", {2, 2}, {3, 1, 0, 2}).value();
  EXPECT_EQ(mesh.group_position_of(3), (Dims{1, 1}));
  EXPECT_EQ(mesh.group_position_of(1), (Dims{0, 0}));
  EXPECT_EQ(mesh.group_position_of(0), (Dims{0, 0}));
  EXPECT_EQ(mesh.group_position_of(2), (Dims{1, 1}));
  EXPECT_EQ(mesh.group_position_of(4), std::nullopt);
  EXPECT_FALSE(mesh.counts_upwards(0));
  EXPECT_FALSE(mesh.counts_upwards(1));

  const DeviceMesh rows = DeviceMesh::make("cpu", {2, 2}, {2, 3, 0, 1}).value();
  EXPECT_FALSE(rows.counts_upwards(0));
  EXPECT_TRUE(rows.counts_upwards(1));
  EXPECT_EQ(rows.group_position_of(2), (Dims{1, 0}));

  const DeviceMesh plain = DeviceMesh::make("cpu", {2, 2}, {0, 1, 4, 5}).value();
  for (const std::int64_t rank : plain.ranks())
    EXPECT_EQ(plain.group_position_of(rank), plain.coordinate_of(rank));
}

}  // namespace
}  // namespace shardkit
