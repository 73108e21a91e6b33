// Random layouts: what is distributed and gathered is what it was, and the boxes tile the tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/distributed/distribute.h"
#include "shardkit/distributed/dtensor_layout_internal.h"
#include "shardkit/distributed/gather.h"
#include "shardkit/distributed/whole_tensors_test_util.h"
#include "shardkit/layout/tiling.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using internal::DTensorLayout;
using testing::IsOk;
using testing::sharding_text;

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t first, std::int64_t last) {
  return std::uniform_int_distribution<std::int64_t>(first, last)(random);
}

// A mesh of 1 to 3 dimensions over `ranks` ranks.
Dims random_mesh_shape(Random& random, std::int64_t ranks) {
  Dims shape(static_cast<std::size_t>(pick(random, 1, 3)), 1);
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
    do {
      shape[d] = pick(random, 1, ranks);
    } while (ranks % shape[d] != 0);
    ranks /= shape[d];
  }
  shape[shape.size() - 1] = ranks;
  return shape;
}

// Shards, strided shards and replicas; sizes that no count divides, and zero; ranks in any order.
std::shared_ptr<const Sharding> random_sharding(Random& random, std::int64_t world_size,
                                                bool with_addends = false) {
  const Dims mesh = random_mesh_shape(random, world_size);
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < world_size; ++i) ranks.push_back(i);
  if (pick(random, 0, 3) == 0) std::shuffle(ranks.begin(), ranks.end(), random);
  Dims shape(static_cast<std::size_t>(pick(random, 1, 3)), 0);
  for (std::int64_t& size : shape) size = pick(random, 0, 9);
  std::vector<Placement> placements;
  for (std::size_t d = 0; d < mesh.size(); ++d) {
    const std::int64_t dim = pick(random, 0, static_cast<std::int64_t>(shape.size()) - 1);
    switch (pick(random, with_addends ? -1 : 0, 3)) {
      case -1: placements.emplace_back(Partial{ReduceOp::kSum}); break;
      case 0: placements.emplace_back(Replicate{}); break;
      case 1: placements.emplace_back(StridedShard{dim, pick(random, 1, 4)}); break;
      default: placements.emplace_back(Shard{dim});
    }
  }
  return testing::make_sharding(mesh, std::move(ranks), std::move(placements), shape);
}

Result<DTensorLayout> layout_of(const std::shared_ptr<const Sharding>& sharding) {
  std::vector<Dims> shapes;
  for (const std::int64_t rank : sharding->mesh->ranks())
    shapes.push_back(local_shape(*sharding, *sharding->mesh->coordinate_of(rank)));
  return DTensorLayout::decide(sharding, shapes);
}

// The flat places in a tensor of `shape` of a box's elements, in row-major order.
void add_places(const Dims& shape, const Dims& offset, const Dims& size,
                std::vector<std::int64_t>& places) {
  const Dims strides = contiguous_strides(shape);
  Dims index(size.size(), 0);
  const std::int64_t count = *element_count(size);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < index.size(); ++d) place += (offset[d] + index[d]) * strides[d];
    places.push_back(place);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] < size[d]) break;
      index[d] = 0;
    }
  }
}

// Cuts the numbers of all elements into local tensors and puts them together again.
void check_layout(const std::shared_ptr<const Sharding>& sharding, const DTensorLayout& layout) {
  const DeviceMesh& mesh = *sharding->mesh;
  std::vector<std::int64_t> gathered(static_cast<std::size_t>(*element_count(sharding->shape)), -1);
  std::vector<Box> of_first_replica;
  std::vector<std::int64_t> global;
  std::vector<std::int64_t> local;
  for (const std::int64_t rank : mesh.ranks()) {
    const Dims coordinate = *mesh.coordinate_of(rank);
    const Dims shape = local_shape(*sharding, coordinate);
    std::vector<std::int64_t> held(static_cast<std::size_t>(*element_count(shape)), -1);
    bool first = true;
    for (std::size_t d = 0; d < coordinate.size(); ++d)
      first = first &&
              (coordinate[d] == 0 || !std::holds_alternative<Replicate>(sharding->placements[d]));
    for (const BoxPair& pair : layout.boxes(rank)) {
      if (first) of_first_replica.push_back(pair.global);
      global.clear();
      local.clear();
      add_places(sharding->shape, pair.global.offset, pair.global.shape, global);
      add_places(shape, pair.local_offset, pair.global.shape, local);
      for (std::size_t i = 0; i < global.size(); ++i) {
        held[static_cast<std::size_t>(local[i])] = global[i];
        gathered[static_cast<std::size_t>(global[i])] = held[static_cast<std::size_t>(local[i])];
      }
    }
    for (const std::int64_t number : held) ASSERT_GE(number, 0) << "rank " << rank;
  }
  for (std::size_t i = 0; i < gathered.size(); ++i)
    ASSERT_EQ(gathered[i], static_cast<std::int64_t>(i));
  ASSERT_THAT(check_tiling(sharding->shape, std::move(of_first_replica)), IsOk());
}

class RandomLayouts : public ::testing::TestWithParam<int> {};

TEST_P(RandomLayouts, TenThousandAreTilings) {
  Random random(static_cast<std::uint64_t>(GetParam()));
  int undecided = 0;
  for (int checked = 0; checked < 10000;) {
    const auto sharding = random_sharding(random, pick(random, 1, 8));
    SCOPED_TRACE(sharding_text(*sharding));
    ASSERT_THAT(check_sharding(*sharding), IsOk());
    const auto layout = layout_of(sharding);
    if (!layout.ok()) {
      ASSERT_EQ(layout.error().code(), ErrorCode::kIncomplete) << layout.error().message();
      ++undecided;
      continue;
    }
    ++checked;
    check_layout(sharding, *layout);
    if (HasFatalFailure()) return;
  }
  // Strided shards of other factors than the shards behind them make, which nothing writes.
  EXPECT_LT(undecided, 2000);
}

TEST_P(RandomLayouts, WhatRanksDistributeTheyGather) {
  Random random(static_cast<std::uint64_t>(GetParam()) + 1000);
  for (int world_size = 1; world_size <= 8; ++world_size) {
    std::vector<std::shared_ptr<const Sharding>> shardings;
    while (shardings.size() < 25) {
      auto sharding = random_sharding(random, world_size);
      if (layout_of(sharding).ok()) shardings.push_back(std::move(sharding));
    }
    Dict full;
    for (std::size_t i = 0; i < shardings.size(); ++i)
      full.items.emplace_back(Value(std::to_string(i)),
                              testing::numbered_tensor(DType::kInt16, shardings[i]->shape, i));
    testing::expect_all_ok(world_size, [&](ProcessGroup& group) -> Status {
      Dict local;
      for (std::size_t i = 0; i < shardings.size(); ++i)
        local.items.emplace_back(
            Value(std::to_string(i)),
            testing::empty_dtensor(DType::kInt16, shardings[i], group.rank(), i % 2 == 0));
      SHARDKIT_TRY(distribute_state_dict(full, local, group));
      GatherOptions options;
      if (world_size % 2 == 0) options.ranks_only = {world_size - 1};
      SHARDKIT_ASSIGN(const Value gathered, gather_state_dict(local, group, options));
      if (world_size % 2 == 0 && group.rank() != world_size - 1) return {};
      for (std::size_t i = 0; i < shardings.size(); ++i)
        EXPECT_EQ(testing::dense_bytes(
                      testing::entry<Tensor>(*gathered.get_if<Dict>(), std::to_string(i))),
                  testing::dense_bytes(testing::entry<Tensor>(full, std::to_string(i))))
            << sharding_text(*shardings[i]);
      return {};
    });
  }
}

// A rank holds its part of a whole that is its own coordinate's along the dimensions of addends.
DTensor addends_of(const std::shared_ptr<const Sharding>& sharding, int rank) {
  const Dims coordinate = testing::kept_coordinate(*sharding, rank);
  std::uint64_t seed = 0;
  for (std::size_t d = 0; d < coordinate.size(); ++d)
    if (std::holds_alternative<Partial>(sharding->placements[d]))
      seed = seed * 8 + static_cast<std::uint64_t>(coordinate[d]);
  DTensor part = testing::empty_dtensor(DType::kInt64, sharding, rank);
  const std::string bytes = testing::part_bytes(
      testing::numbered_tensor(DType::kInt64, sharding->shape, seed), *sharding, coordinate);
  std::memcpy(part.local.storage->memory()->data, bytes.data(), bytes.size());
  return part;
}

std::string sum_of_addends(const Sharding& sharding) {
  const std::size_t elements = static_cast<std::size_t>(*element_count(sharding.shape));
  std::vector<std::uint64_t> sums(elements, 0);
  std::vector<std::uint64_t> seeds{0};
  for (std::size_t d = 0; d < sharding.placements.size(); ++d) {
    if (!std::holds_alternative<Partial>(sharding.placements[d])) continue;
    std::vector<std::uint64_t> longer;
    for (const std::uint64_t seed : seeds)
      for (std::int64_t c = 0; c < sharding.mesh->shape()[d]; ++c)
        longer.push_back(seed * 8 + static_cast<std::uint64_t>(c));
    seeds = std::move(longer);
  }
  for (const std::uint64_t seed : seeds) {
    const std::string bytes =
        testing::dense_bytes(testing::numbered_tensor(DType::kInt64, sharding.shape, seed));
    std::vector<std::uint64_t> addend(elements);
    if (elements > 0) std::memcpy(addend.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < elements; ++i) sums[i] += addend[i];
  }
  return std::string(reinterpret_cast<const char*>(sums.data()), elements * sizeof(sums[0]));
}

TEST_P(RandomLayouts, AddendsAreThoseOfTheSameElements) {
  Random random(static_cast<std::uint64_t>(GetParam()) + 2000);
  for (const int world_size : {2, 4, 6, 8}) {
    std::vector<std::shared_ptr<const Sharding>> shardings;
    while (shardings.size() < 40) {
      auto sharding = random_sharding(random, world_size, /*with_addends=*/true);
      if (check_sharding(*sharding).ok() && layout_of(sharding).ok())
        shardings.push_back(std::move(sharding));
    }
    testing::expect_all_ok(world_size, [&](ProcessGroup& group) -> Status {
      Dict local;
      for (std::size_t i = 0; i < shardings.size(); ++i)
        local.items.emplace_back(Value(std::to_string(i)), addends_of(shardings[i], group.rank()));
      SHARDKIT_ASSIGN(const Value gathered, gather_state_dict(local, group));
      for (std::size_t i = 0; i < shardings.size(); ++i)
        EXPECT_EQ(testing::dense_bytes(
                      testing::entry<Tensor>(*gathered.get_if<Dict>(), std::to_string(i))),
                  sum_of_addends(*shardings[i]))
            << sharding_text(*shardings[i]);
      return {};
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLayouts, ::testing::Range(0, 10));

}  // namespace
}  // namespace shardkit
