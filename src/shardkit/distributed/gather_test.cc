// Gathering: values, who gets them, memory, and errors. tests/interop holds it against PyTorch.
#include "shardkit/distributed/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "shardkit/collective/thread_group.h"
#include "shardkit/distributed/whole_tensors_test_util.h"
#include "shardkit/state/memory.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using testing::dense_bytes;
using testing::entry;
using testing::expect_all_fail;
using testing::expect_all_ok;
using testing::Fails;
using testing::float_tensor;
using testing::floats;
using testing::IsOk;
using testing::make_dict;
using testing::make_sharding;
using testing::numbered_tensor;
using testing::part_bytes;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr auto kIncomplete = ErrorCode::kIncomplete;

// A rank's part of a whole tensor, cut element by element.
DTensor part_of(const Tensor& whole, const std::shared_ptr<const Sharding>& sharding,
                const Dims& coordinate, CutOrder order = CutOrder::kSpec) {
  const Dims shape = local_shape(*sharding, coordinate, order);
  Tensor local = make_cpu_tensor(whole.dtype, shape).value();
  const std::string bytes = part_bytes(whole, *sharding, coordinate, order);
  std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(),
              local.storage->memory()->data);
  return {local, sharding};
}

// All ranks hold their part of one whole tensor; each must get the whole back.
void expect_gathered(int size, const std::shared_ptr<const Sharding>& sharding,
                     CutOrder order = CutOrder::kSpec, DType dtype = DType::kFloat32) {
  const Tensor whole = numbered_tensor(dtype, sharding->shape, 7);
  expect_all_ok(size, [&](ProcessGroup& group) -> Status {
    const auto coordinate = sharding->mesh->coordinate_of(group.rank());
    const DTensor part = part_of(whole, sharding, *coordinate, order);
    SHARDKIT_ASSIGN(const Value made, gather_state_dict(make_dict({{"w", part}}), group));
    const Tensor& gathered = entry<Tensor>(*made.get_if<Dict>(), "w");
    EXPECT_EQ(gathered.shape, sharding->shape);
    EXPECT_TRUE(is_contiguous(gathered));
    EXPECT_EQ(dense_bytes(gathered), dense_bytes(whole));
    return {};
  });
}

TEST(GatherStateDict, EvenAndUnevenShardsOfAnyDimension) {
  expect_gathered(4, make_sharding({4}, {0, 1, 2, 3}, {Shard{0}}, {8, 3}));
  expect_gathered(4, make_sharding({4}, {0, 1, 2, 3}, {Shard{0}}, {5, 3}));
  expect_gathered(4, make_sharding({4}, {0, 1, 2, 3}, {Shard{0}}, {2, 3}));
  expect_gathered(3, make_sharding({3}, {0, 1, 2}, {Shard{1}}, {2, 7}));
  expect_gathered(3, make_sharding({3}, {0, 1, 2}, {Shard{2}}, {2, 3, 4}), CutOrder::kSpec,
                  DType::kInt8);
  expect_gathered(2, make_sharding({2}, {0, 1}, {Shard{1}}, {1, 5}));
  expect_gathered(2, make_sharding({2}, {0, 1}, {Shard{0}}, {0, 5}));
  expect_gathered(2, make_sharding({2}, {0, 1}, {Shard{0}}, {3, 0}));
  expect_gathered(2, make_sharding({2}, {0, 1}, {Replicate{}}, {}));
}

TEST(GatherStateDict, MeshesOfSeveralDimensions) {
  const std::vector<std::int64_t> ranks{0, 1, 2, 3, 4, 5};
  expect_gathered(6, make_sharding({2, 3}, ranks, {Shard{0}, Shard{0}}, {7, 2}));
  expect_gathered(6, make_sharding({2, 3}, ranks, {Shard{0}, Shard{1}}, {3, 7}));
  expect_gathered(6, make_sharding({2, 3}, ranks, {Replicate{}, Shard{0}}, {7}));
  expect_gathered(6, make_sharding({2, 3}, ranks, {Shard{1}, Replicate{}}, {2, 3}));
  const std::vector<std::int64_t> four{0, 1, 2, 3};
  expect_gathered(4, make_sharding({2, 2}, four, {StridedShard{0, 2}, Shard{0}}, {8, 2}));
  expect_gathered(4, make_sharding({2, 2}, four, {StridedShard{0, 2}, Shard{0}}, {7, 2}));
  expect_gathered(4, make_sharding({2, 2}, four, {StridedShard{1, 3}, Replicate{}}, {2, 9}));
}

// FSDP2 over uneven tensor parallelism, where one rank's size fits both orders.
TEST(GatherStateDict, TheLocalShapesOfAllRanksDecideTheOrderOfCutting) {
  std::vector<std::int64_t> ranks;
  for (int i = 0; i < 12; ++i) ranks.push_back(i);
  const auto sharding = make_sharding({3, 4}, ranks, {StridedShard{0, 4}, Shard{0}}, {27, 2});
  expect_gathered(12, sharding, CutOrder::kSpec);
  expect_gathered(12, sharding, CutOrder::kPhysical);
}

TEST(GatherStateDict, AMeshWhoseRanksDoNotCountUpwardsIsReadAsItsProcessGroups) {
  const auto sharding = make_sharding({2}, {1, 0}, {Shard{0}}, {4});
  expect_all_ok(2, [&](ProcessGroup& group) -> Status {
    const float first = group.rank() == 0 ? 0.F : 2.F;
    const DTensor part{float_tensor({2}, {first, first + 1}), sharding};
    SHARDKIT_ASSIGN(const Value made, gather_state_dict(make_dict({{"w", part}}), group));
    EXPECT_THAT(floats(entry<Tensor>(*made.get_if<Dict>(), "w")),
                ::testing::ElementsAre(0, 1, 2, 3));
    return {};
  });
  // Uneven shards tell another order.
  expect_gathered(2, make_sharding({2}, {1, 0}, {Shard{0}}, {3}));
}

// Each of four ranks holds one element, 10 to the power of its rank.
Status gather_power(const std::shared_ptr<const Sharding>& sharding, ProcessGroup& group,
                    std::vector<float>& gathered) {
  const float value = std::pow(10.F, static_cast<float>(group.rank()));
  const DTensor part{float_tensor({1}, {value}), sharding};
  SHARDKIT_ASSIGN(const Value made, gather_state_dict(make_dict({{"w", part}}), group));
  gathered = floats(entry<Tensor>(*made.get_if<Dict>(), "w"));
  return {};
}

// Ranks 0 and 2, and 1 and 3, are the first and second of the process groups along dimension 1.
// The values are those of full_tensor() of torch 2.13.
TEST(GatherStateDict, AddendsAreReducedWithThoseWhoHoldTheSameElements) {
  const Placement sum = Partial{ReduceOp::kSum};
  const auto snake = make_sharding({2, 2}, {0, 1, 3, 2}, {sum, Shard{0}}, {2});
  const auto shuffled = make_sharding({2, 2}, {2, 0, 1, 3}, {sum, Shard{0}}, {2});
  const auto columns = make_sharding({2, 2}, {0, 1, 3, 2}, {Shard{0}, sum}, {2});
  expect_all_ok(4, [&](ProcessGroup& group) -> Status {
    std::vector<float> gathered;
    SHARDKIT_TRY(gather_power(snake, group, gathered));
    EXPECT_THAT(gathered, ::testing::ElementsAre(101, 1010));
    SHARDKIT_TRY(gather_power(shuffled, group, gathered));
    EXPECT_THAT(gathered, ::testing::ElementsAre(11, 1100));
    SHARDKIT_TRY(gather_power(columns, group, gathered));
    EXPECT_THAT(gathered, ::testing::ElementsAre(11, 1100));
    return {};
  });
}

// There full_tensor() of torch 2.13 returns one tensor on some ranks and another one on the rest.
TEST(GatherStateDict, AMeshWhoseRanksReadDifferentTensorsInPyTorchIsRefused) {
  for (const Placement& placement : {Placement(Partial{ReduceOp::kSum}), Placement(Shard{0})}) {
    const bool adds = std::holds_alternative<Partial>(placement);
    const auto sharding =
        make_sharding({2, 2}, {0, 3, 1, 2}, {Shard{0}, placement}, {adds ? 2 : 4});
    expect_all_fail(
        4,
        [&](ProcessGroup& group) -> Status {
          std::vector<float> gathered;
          return gather_power(sharding, group, gathered);
        },
        kIncomplete, "tensor 'w'");
  }
  // Uneven shards tell, and a tensor without elements is the same in any order.
  expect_gathered(4, make_sharding({2, 2}, {0, 3, 1, 2}, {Shard{0}, Replicate{}}, {3}));
  expect_gathered(4, make_sharding({2, 2}, {0, 3, 1, 2}, {Shard{0}, Shard{0}}, {7}));
  expect_gathered(4, make_sharding({2, 2}, {0, 3, 1, 2}, {Shard{0}, Shard{0}}, {0}));
}

// What FSDP2 makes of a tensor-parallel parameter, whose rows its first dimension cuts last.
TEST(GatherStateDict, StridedShardsAreReadInTheOrderInWhichTheyWereCut) {
  const auto sharding = make_sharding({2, 2}, {0, 3, 1, 2}, {StridedShard{0, 2}, Shard{0}}, {4});
  expect_all_ok(4, [&](ProcessGroup& group) -> Status {
    std::vector<float> gathered;
    SHARDKIT_TRY(gather_power(sharding, group, gathered));
    EXPECT_THAT(gathered, ::testing::ElementsAre(1, 10, 100, 1000));
    return {};
  });
}

TEST(GatherStateDict, RanksWithDifferentSubmeshesAndOrdersOfKeys) {
  const Tensor whole = numbered_tensor(DType::kFloat32, {6, 2}, 1);
  const Tensor other = numbered_tensor(DType::kFloat16, {5}, 2);
  const auto grid = make_sharding({2, 2}, {0, 1, 2, 3}, {Shard{0}, Shard{1}}, {6, 2});
  expect_all_ok(4, [&](ProcessGroup& group) -> Status {
    const int row = group.rank() / 2 * 2;
    const auto line = make_sharding({2}, {row, row + 1}, {Shard{0}}, {5});
    const Value w = part_of(whole, grid, *grid->mesh->coordinate_of(group.rank()));
    const Value v = part_of(other, line, {group.rank() % 2});
    const Value state =
        group.rank() == 2 ? make_dict({{"w", w}, {"v", v}}) : make_dict({{"v", v}, {"w", w}});
    SHARDKIT_ASSIGN(const Value made, gather_state_dict(state, group));
    EXPECT_EQ(dense_bytes(entry<Tensor>(*made.get_if<Dict>(), "w")), dense_bytes(whole));
    EXPECT_EQ(dense_bytes(entry<Tensor>(*made.get_if<Dict>(), "v")), dense_bytes(other));
    return {};
  });
}

// A key may hold what stands between the parts of a path.
TEST(GatherStateDict, PathsThatLookAlikeAreNotTakenForOne) {
  const auto sharding = make_sharding({2}, {0, 1}, {Shard{0}}, {2});
  expect_all_fail(
      2,
      [&](ProcessGroup& group) -> Status {
        const DTensor part{float_tensor({1}, {1}), sharding};
        const Dict inner = make_dict({{"c", part}});
        const Value state = group.rank() == 0 ? Value(make_dict({{"a", make_dict({{"b", inner}})}}))
                                              : Value(make_dict({{"a', 'b", inner}}));
        SHARDKIT_TRY(gather_state_dict(state, group));
        return {};
      },
      ErrorCode::kInvalidArgument, "has no tensor there, which rank");
}

TEST(GatherStateDict, LocalTensorsMayHaveAnyStrides) {
  const auto sharding = make_sharding({2}, {0, 1}, {Shard{0}}, {4, 3});
  const auto columns = make_sharding({2}, {0, 1}, {Shard{1}}, {3, 4});
  expect_all_ok(2, [&](ProcessGroup& group) -> Status {
    std::vector<float> values(6);
    for (int i = 0; i < 6; ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(group.rank() * 6 + i);
    DTensor rows{float_tensor({2, 3}, values), sharding};
    // The same six numbers, stored by columns.
    std::vector<float> stored{values[0], values[3], values[1], values[4], values[2], values[5]};
    rows.local.storage = testing::make_storage(stored);
    rows.local.strides = {1, 2};
    DTensor cut{float_tensor({3, 2}, values), columns};
    cut.local.storage = rows.local.storage;
    cut.local.strides = {2, 1};
    for (const bool one : {false, true}) {
      GatherOptions options;
      if (one) options.ranks_only = {1};
      SHARDKIT_ASSIGN(const Value made,
                      gather_state_dict(make_dict({{"r", rows}, {"c", cut}}), group, options));
      const Dict& dict = *made.get_if<Dict>();
      if (one && group.rank() == 0) {
        EXPECT_TRUE(dict.items.empty());
        continue;
      }
      EXPECT_THAT(floats(entry<Tensor>(dict, "r")),
                  ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
      EXPECT_THAT(floats(entry<Tensor>(dict, "c")),
                  ::testing::ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
    }
    return {};
  });
}

TEST(GatherStateDict, AddendsAreReducedInTheOrderOfRanksAndRoundedOnce) {
  const auto gathered = [](ReduceOp op, const std::vector<std::vector<float>>& of_rank) {
    std::vector<float> result;
    const auto size = static_cast<std::int64_t>(of_rank.size());
    std::vector<std::int64_t> ranks;
    for (std::int64_t i = 0; i < size; ++i) ranks.push_back(i);
    const auto sharding = make_sharding({size}, ranks, {Partial{op}}, {2});
    expect_all_ok(static_cast<int>(size), [&](ProcessGroup& group) -> Status {
      const DTensor part{float_tensor({2}, of_rank[static_cast<std::size_t>(group.rank())]),
                         sharding};
      SHARDKIT_ASSIGN(const Value made, gather_state_dict(make_dict({{"w", part}}), group));
      if (group.rank() == 0) result = floats(entry<Tensor>(*made.get_if<Dict>(), "w"));
      EXPECT_EQ(floats(part.local), of_rank[static_cast<std::size_t>(group.rank())]);
      return {};
    });
    return result;
  };
  using ::testing::ElementsAre;
  const std::vector<std::vector<float>> addends{{1, 2}, {4, 5}};
  EXPECT_THAT(gathered(ReduceOp::kSum, addends), ElementsAre(5, 7));
  EXPECT_THAT(gathered(ReduceOp::kAvg, addends), ElementsAre(2.5, 3.5));
  EXPECT_THAT(gathered(ReduceOp::kMax, addends), ElementsAre(4, 5));
  EXPECT_THAT(gathered(ReduceOp::kMin, addends), ElementsAre(1, 2));
  EXPECT_THAT(gathered(ReduceOp::kProduct, addends), ElementsAre(4, 10));
  // ((1e8 + 1) - 1e8) is 0 in float32, and (1e8 - 1e8) + 1 is 1.
  EXPECT_THAT(gathered(ReduceOp::kSum, {{1e8, 1e8}, {1, -1e8}, {-1e8, 1}}), ElementsAre(0, 1));
}

// bfloat16: 256 + 1 rounds to 256, so that rounding after each addend would lose both ones.
TEST(GatherStateDict, SixteenBitAddendsAreSummedInFloat32) {
  const auto sharding = make_sharding({3}, {0, 1, 2}, {Partial{ReduceOp::kSum}}, {1});
  expect_all_ok(3, [&](ProcessGroup& group) -> Status {
    const std::uint16_t value = group.rank() == 0 ? 0x4380 : 0x3f80;  // 256 or 1
    const DTensor part{testing::make_tensor<std::uint16_t>(DType::kBFloat16, {1}, {value}),
                       sharding};
    SHARDKIT_ASSIGN(const Value made, gather_state_dict(make_dict({{"w", part}}), group));
    EXPECT_EQ(dense_bytes(entry<Tensor>(*made.get_if<Dict>(), "w")), "\x81\x43");  // 258
    return {};
  });
}

TEST(GatherStateDict, AddendsOfShards) {
  const auto sharding =
      make_sharding({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7},
                    {Partial{ReduceOp::kSum}, Shard{0}, Partial{ReduceOp::kAvg}}, {3});
  for (const std::vector<int>& ranks_only : {std::vector<int>{}, {5}}) {
    expect_all_ok(8, [&](ProcessGroup& group) -> Status {
      const Dims c = *sharding->mesh->coordinate_of(group.rank());
      const float base = static_cast<float>(1 + c[0] * 10 + c[2] * 100);
      const DTensor part{
          c[1] == 0 ? float_tensor({2}, {base, base + 1}) : float_tensor({1}, {base + 2}),
          sharding};
      GatherOptions options;
      options.ranks_only = ranks_only;
      SHARDKIT_ASSIGN(const Value made,
                      gather_state_dict(make_dict({{"w", part}}), group, options));
      const Dict& dict = *made.get_if<Dict>();
      if (!ranks_only.empty() && group.rank() != 5) {
        EXPECT_TRUE(dict.items.empty());
        return {};
      }
      // (1 + 11 + 101 + 111) / 2
      EXPECT_THAT(floats(entry<Tensor>(dict, "w")), ::testing::ElementsAre(112, 114, 116));
      return {};
    });
  }
}

TEST(GatherStateDict, IntegersAreSummedButHaveNoAverage) {
  const auto state = [](int rank, ReduceOp op) {
    const auto sharding = make_sharding({2}, {0, 1}, {Partial{op}}, {1});
    return make_dict(
        {{"w",
          DTensor{testing::make_tensor<std::int64_t>(DType::kInt64, {1}, {rank + 3}), sharding}}});
  };
  expect_all_ok(2, [&](ProcessGroup& group) -> Status {
    SHARDKIT_ASSIGN(const Value made,
                    gather_state_dict(state(group.rank(), ReduceOp::kSum), group));
    EXPECT_EQ(dense_bytes(entry<Tensor>(*made.get_if<Dict>(), "w")),
              std::string("\7\0\0\0\0\0\0\0", 8));
    return {};
  });
  expect_all_fail(
      2,
      [&](ProcessGroup& group) -> Status {
        SHARDKIT_TRY(gather_state_dict(state(group.rank(), ReduceOp::kAvg), group));
        return {};
      },
      ErrorCode::kUnsupported, "tensor 'w'");
}

TEST(GatherStateDict, WhatIsWholeIsShared) {
  const Tensor plain = float_tensor({2}, {1, 2});
  expect_all_ok(2, [&](ProcessGroup& group) -> Status {
    const DTensor replica{float_tensor({2}, {3, 4}),
                          make_sharding({2}, {0, 1}, {Replicate{}}, {2})};
    const DTensor alone{float_tensor({2}, {5, 6}),
                        make_sharding({1}, {group.rank()}, {Shard{0}}, {2})};
    const DTensor outside{float_tensor({0}, {}),
                          make_sharding({1}, {1 - group.rank()}, {Shard{0}}, {2})};
    const Value state = make_dict(
        {{"p", List{{plain, std::int64_t{1}}}}, {"r", replica}, {"a", alone}, {"o", outside}});
    SHARDKIT_ASSIGN(const Value made, gather_state_dict(state, group));
    const Dict& dict = *made.get_if<Dict>();
    EXPECT_EQ(entry<List>(dict, "p").items[0].get_if<Tensor>()->storage, plain.storage);
    EXPECT_EQ(entry<Tensor>(dict, "r").storage, replica.local.storage);
    EXPECT_EQ(entry<Tensor>(dict, "a").storage, alone.local.storage);
    EXPECT_EQ(entry<Tensor>(dict, "o").storage, outside.local.storage);
    return {};
  });
}

ShardedTensor sharded(Dims shape, std::vector<ShardMetadata> shards, int rank,
                      const Tensor& whole) {
  ShardedTensor tensor;
  tensor.dtype = whole.dtype;
  tensor.shape = std::move(shape);
  tensor.shards = std::move(shards);
  for (const ShardMetadata& shard : tensor.shards) {
    if (shard.rank != rank) continue;
    Tensor local = whole;
    local.shape = shard.box.shape;
    for (std::size_t d = 0; d < local.shape.size(); ++d)
      local.offset += shard.box.offset[d] * whole.strides[d];
    tensor.local_shards.push_back({shard, local});
  }
  return tensor;
}

void expect_sharded_gathered(int size, const Dims& shape,
                             const std::vector<ShardMetadata>& shards) {
  const Tensor whole = numbered_tensor(DType::kFloat32, shape, 3);
  expect_all_ok(size, [&](ProcessGroup& group) -> Status {
    const ShardedTensor tensor = sharded(shape, shards, group.rank(), whole);
    SHARDKIT_ASSIGN(const Tensor made, all_gather_sharded_tensor(tensor, group));
    EXPECT_EQ(made.shape, shape);
    EXPECT_EQ(dense_bytes(made), dense_bytes(whole));
    GatherOptions options;
    options.ranks_only = {1};
    SHARDKIT_ASSIGN(const Value state, gather_state_dict(List{{tensor}}, group, options));
    if (group.rank() == 1) {
      EXPECT_EQ(dense_bytes(*state.get_if<List>()->items[0].get_if<Tensor>()), dense_bytes(whole));
    } else {
      EXPECT_TRUE(state.get_if<None>());
    }
    return {};
  });
}

TEST(AllGatherShardedTensor, RowsAsFsdp1CutsThem) {
  expect_sharded_gathered(4, {5, 3},
                          {{{{0, 0}, {2, 3}}, 0}, {{{2, 0}, {2, 3}}, 1}, {{{4, 0}, {1, 3}}, 2}});
}

TEST(AllGatherShardedTensor, AnyDimensionAnySizesAnyRanks) {
  expect_sharded_gathered(2, {2, 5}, {{{{0, 0}, {2, 1}}, 1}, {{{0, 1}, {2, 4}}, 0}});
  expect_sharded_gathered(
      3, {4, 4},
      {{{{0, 0}, {3, 2}}, 2}, {{{0, 2}, {1, 2}}, 0}, {{{1, 2}, {3, 2}}, 0}, {{{3, 0}, {1, 2}}, 1}});
  expect_sharded_gathered(2, {5}, {{{{0}, {5}}, 1}, {{{6}, {0}}, 0}});
  expect_sharded_gathered(2, {0, 3}, {});
}

TEST(AllGatherShardedTensor, ShardsThatDoNotCoverItAreRefused) {
  const Tensor whole = numbered_tensor(DType::kFloat32, {6}, 3);
  const auto fail_with = [&](const std::vector<ShardMetadata>& shards, const char* text) {
    expect_all_fail(
        2,
        [&](ProcessGroup& group) -> Status {
          SHARDKIT_TRY(all_gather_sharded_tensor(sharded({6}, shards, group.rank(), whole), group));
          return {};
        },
        kIncomplete, text);
  };
  fail_with({{{{0}, {3}}, 0}, {{{4}, {2}}, 1}}, "");
  fail_with({{{{0}, {4}}, 0}, {{{3}, {3}}, 1}}, "");
  expect_all_fail(
      2,
      [&](ProcessGroup& group) -> Status {
        auto tensor = sharded({6}, {{{{0}, {3}}, 0}, {{{3}, {3}}, 1}}, group.rank(), whole);
        if (group.rank() == 1) tensor.local_shards[0].tensor.shape = {2};
        SHARDKIT_TRY(all_gather_sharded_tensor(tensor, group));
        return {};
      },
      kIncomplete, "rank 1's shard is not of the dtype and size its metadata says");
  // What the ranks hold covers the tensor, but is not what all of them say who holds.
  expect_all_fail(
      2,
      [&](ProcessGroup& group) -> Status {
        auto tensor = sharded({6}, {{{{0}, {2}}, 0}, {{{2}, {4}}, 1}}, group.rank(), whole);
        tensor.shards = {{{{0}, {3}}, 0}, {{{3}, {3}}, 1}};
        SHARDKIT_TRY(all_gather_sharded_tensor(tensor, group));
        return {};
      },
      kIncomplete,
      "rank 0's shard is none that the metadata lists: tensor 'the root', found [0:2]");
  const auto groups = make_thread_groups(1);
  EXPECT_THAT(
      all_gather_sharded_tensor(sharded({6}, {{{{0}, {6}}, 0}}, 0, whole), *groups[0], "cuda"),
      Fails(ErrorCode::kUnsupported, "found cuda"));
}

// One rank's fault, of whatever kind, is the error of all, and none waits for the timeout.
class OneRankFails : public ::testing::Test {
 protected:
  using Spoil = std::function<void(Dict& state, GatherOptions& options)>;
  static void expect_error(const Spoil& spoil, ErrorCode code, const char* text) {
    const auto sharding = make_sharding({3}, {0, 1, 2}, {Shard{0}}, {6});
    expect_all_fail(
        3,
        [&](ProcessGroup& group) -> Status {
          const DTensor part{float_tensor({2}, {1, 2}), sharding};
          Dict state = make_dict({{"w", part}, {"x", part}});
          GatherOptions options;
          if (group.rank() == 1) spoil(state, options);
          SHARDKIT_TRY(gather_state_dict(state, group, options));
          return {};
        },
        code, text);
  }
};

TEST_F(OneRankFails, ByWhatItHas) {
  expect_error([](Dict& state, auto&) { state.items.pop_back(); }, kInvalid,
               "rank 1 has no tensor there, which rank 0 shares with it: tensor 'x'");
  expect_error(
      [](Dict& state, auto&) {
        state.items[1].second.get_if<DTensor>()->local = float_tensor({3}, {1, 2, 3});
      },
      kIncomplete, "tensor 'x'");
  expect_error(
      [](Dict& state, auto&) {
        state.items[1].second.get_if<DTensor>()->local = testing::meta_tensor(DType::kFloat32, {2});
      },
      kInvalid, "rank 1: the tensor has no bytes (meta): tensor 'x'");
  expect_error(
      [](Dict& state, auto&) { state.items[1].second.get_if<DTensor>()->local.offset = 100; },
      ErrorCode::kCorrupt, "rank 1: ");
  expect_error([](Dict& state, auto&) { state.items.emplace_back(Value(std::string("s")), Set{}); },
               ErrorCode::kUnsupported,
               "rank 1: a value of this kind is not copied: tensor 's', found set");
}

TEST_F(OneRankFails, ByItsOptions) {
  expect_error([](Dict&, GatherOptions& options) { options.device = "cuda"; },
               ErrorCode::kUnsupported, "rank 1: tensors are in CPU memory");
  expect_error([](Dict&, GatherOptions& options) { options.ranks_only = {3}; }, kInvalid,
               "rank 1: ranks_only names a rank outside the group");
  expect_error([](Dict&, GatherOptions& options) { options.ranks_only = {0}; }, kInvalid,
               "ranks 0 and 1 are called with different options: expected ranks_only [], found "
               "ranks_only [0]");
}

TEST(GatherStateDict, ARankThatIsGoneOrLateIsAnError) {
  const auto sharding = make_sharding({2}, {0, 1}, {Shard{0}}, {2});
  const Value state = make_dict({{"w", DTensor{float_tensor({1}, {1}), sharding}}});
  const auto gone = run_ranks(2, [&](ProcessGroup& group) -> Status {
    if (group.rank() == 0) return {};
    SHARDKIT_TRY(gather_state_dict(state, group));
    return {};
  });
  EXPECT_THAT(gone[1], Fails(ErrorCode::kPeer, "rank 0 left"));
  const auto late = run_ranks(2,
                              [&](ProcessGroup& group) -> Status {
                                if (group.rank() == 0)
                                  std::this_thread::sleep_for(std::chrono::milliseconds(300));
                                SHARDKIT_TRY(gather_state_dict(state, group));
                                return {};
                              },
                              {std::chrono::milliseconds(50)});
  for (const Status& status : late) EXPECT_THAT(status, Fails(ErrorCode::kPeer, ""));
}

}  // namespace
}  // namespace shardkit
