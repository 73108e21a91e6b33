// The groups of meshes, made by ranks that know different meshes.
#include "shardkit/distributed/mesh_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardkit/collective/thread_group.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::IsEmpty;
using testing::IsOk;

std::shared_ptr<const DeviceMesh> make_mesh(Dims shape, std::vector<std::int64_t> ranks) {
  return std::make_shared<const DeviceMesh>(
      DeviceMesh::make("cpu", std::move(shape), std::move(ranks)).value());
}

// The ranks of the world that meet in a group, in its order.
Result<std::vector<int>> members(ProcessGroup& group, int world_rank) {
  std::vector<int> all(static_cast<std::size_t>(group.size()));
  SHARDKIT_TRY(group.all_gather(std::as_bytes(std::span(&world_rank, 1)),
                                std::as_writable_bytes(std::span(all))));
  return all;
}

Status status_of(const Result<MeshGroups>& groups) {
  if (groups.ok()) return {};
  return groups.error();
}

TEST(MeshGroups, RanksAlongDimensions) {
  const auto mesh = make_mesh({2, 3}, {0, 1, 2, 10, 11, 12});
  EXPECT_THAT(ranks_along(*mesh, 0b00, 11), ElementsAre(11));
  EXPECT_THAT(ranks_along(*mesh, 0b01, 11), ElementsAre(1, 11));
  EXPECT_THAT(ranks_along(*mesh, 0b10, 11), ElementsAre(10, 11, 12));
  EXPECT_THAT(ranks_along(*mesh, 0b11, 11), ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(ranks_along(*mesh, 0b11, 3), IsEmpty());
}

TEST(MeshGroups, LinesOfAMeshWhoseRanksDoNotCountUpwardsFollowItsArray) {
  const auto mesh = make_mesh({2, 2}, {3, 1, 2, 0});
  EXPECT_THAT(ranks_along(*mesh, 0b01, 2), ElementsAre(3, 2));
  EXPECT_THAT(ranks_along(*mesh, 0b10, 2), ElementsAre(2, 0));
  const auto statuses = run_ranks(4, [&](ProcessGroup& world) -> Status {
    SHARDKIT_ASSIGN(auto groups,
                    MeshGroups::make(world, std::vector<MeshGroups::Request>{{mesh, 0b11}}));
    SHARDKIT_ASSIGN(ProcessGroup * whole, groups.group(*mesh, 0b11));
    EXPECT_NE(whole, &world);
    SHARDKIT_ASSIGN(const auto ranks, members(*whole, world.rank()));
    EXPECT_THAT(ranks, ElementsAre(3, 1, 2, 0));
    return {};
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

// Each rank knows the submesh of its own row, in another order than others know theirs.
TEST(MeshGroups, RanksWithDifferentMeshesDoNotWaitForEachOther) {
  const auto statuses = run_ranks(4, [](ProcessGroup& world) -> Status {
    const std::int64_t row = world.rank() / 2 * 2;
    const auto grid = make_mesh({2, 2}, {0, 1, 2, 3});
    const auto line = make_mesh({2}, {row, row + 1});
    std::vector<MeshGroups::Request> requests{{grid, 0b01}, {line, 0b1}, {grid, 0b11}};
    if (world.rank() > 1) std::swap(requests[0], requests[1]);
    if (world.rank() == 3) requests.pop_back();
    SHARDKIT_ASSIGN(auto groups, MeshGroups::make(world, std::move(requests)));
    SHARDKIT_ASSIGN(ProcessGroup * whole, groups.group(*grid, 0b11));
    EXPECT_EQ(whole, &world);
    SHARDKIT_ASSIGN(ProcessGroup * own_line, groups.group(*line, 0b1));
    SHARDKIT_ASSIGN(ProcessGroup * same, groups.group(*grid, 0b10));
    EXPECT_EQ(own_line, same);
    SHARDKIT_ASSIGN(const auto in_line, members(*own_line, world.rank()));
    EXPECT_THAT(in_line, ElementsAre(row, row + 1));
    SHARDKIT_ASSIGN(ProcessGroup * column, groups.group(*grid, 0b01));
    SHARDKIT_ASSIGN(const auto in_column, members(*column, world.rank()));
    EXPECT_THAT(in_column, ElementsAre(world.rank() % 2, world.rank() % 2 + 2));
    return {};
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(MeshGroups, ARankThatDidNotAskTakesPart) {
  const auto statuses = run_ranks(3, [](ProcessGroup& world) -> Status {
    const auto mesh = make_mesh({2}, {0, 2});
    std::vector<MeshGroups::Request> requests;
    if (world.rank() == 0) requests.push_back({mesh, 0b1});
    SHARDKIT_ASSIGN(auto groups, MeshGroups::make(world, std::move(requests)));
    if (world.rank() == 1) {
      EXPECT_THAT(groups.group(*mesh, 0b1), Fails(ErrorCode::kInvalidArgument, "no such group"));
      return {};
    }
    SHARDKIT_ASSIGN(ProcessGroup * pair, groups.group(*mesh, 0b1));
    SHARDKIT_ASSIGN(const auto ranks, members(*pair, world.rank()));
    EXPECT_THAT(ranks, ElementsAre(0, 2));
    EXPECT_THAT(groups.group(*make_mesh({1}, {world.rank()}), 0b1),
                Fails(ErrorCode::kInvalidArgument, "no such group of the mesh"));
    return {};
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(MeshGroups, OneRanksErrorIsEverybodys) {
  const auto outside = run_ranks(3, [](ProcessGroup& world) -> Status {
    std::vector<MeshGroups::Request> requests;
    if (world.rank() == 2) requests.push_back({make_mesh({2}, {2, 5}), 0b1});
    return status_of(MeshGroups::make(world, std::move(requests)));
  });
  for (const Status& status : outside)
    EXPECT_THAT(status, Fails(ErrorCode::kInvalidArgument,
                              "rank 2: a device mesh has rank 5, which is not in the process "
                              "group: expected ranks below 3"));
  const auto failed = run_ranks(2, [](ProcessGroup& world) -> Status {
    Result<std::vector<MeshGroups::Request>> requests = std::vector<MeshGroups::Request>();
    if (world.rank() == 1) requests = Error(ErrorCode::kLimit, "full");
    return status_of(MeshGroups::make(world, std::move(requests)));
  });
  for (const Status& status : failed) EXPECT_THAT(status, Fails(ErrorCode::kLimit, "rank 1: full"));
}

TEST(MeshGroups, WhoWaitsForARankThatLeftFailsAtOnce) {
  const auto statuses = run_ranks(2, [](ProcessGroup& world) -> Status {
    const auto mesh = make_mesh({2}, {1, 0});
    SHARDKIT_ASSIGN(auto groups,
                    MeshGroups::make(world, std::vector<MeshGroups::Request>{{mesh, 0b1}}));
    if (world.rank() == 0) {
      groups.leave();
      return world.barrier();
    }
    SHARDKIT_ASSIGN(ProcessGroup * pair, groups.group(*mesh, 0b1));
    EXPECT_THAT(pair->barrier(), Fails(ErrorCode::kPeer, "left the group"));
    return world.barrier();
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

}  // namespace
}  // namespace shardkit
