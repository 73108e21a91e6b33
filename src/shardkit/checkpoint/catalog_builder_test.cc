#include "shardkit/checkpoint/catalog_builder.h"

#include <gtest/gtest.h>

#include <limits>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::float_tensor;
using testing::IsOk;
using testing::make_dict;
using testing::make_sharding;

Result<Catalog> join(const std::vector<Value>& ranks, PlainTensors plain = PlainTensors::kAuto) {
  CatalogBuilder builder(static_cast<std::int64_t>(ranks.size()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    SHARDKIT_TRY(
        builder.add(static_cast<std::int64_t>(rank), "rank" + std::to_string(rank), ranks[rank]));
  return std::move(builder).finish(plain);
}

/// A DTensor of `rows` x 2 whose local tensor has `local_rows`.
DTensor rows_of(std::shared_ptr<const Sharding> sharding, std::int64_t local_rows) {
  return {
      float_tensor({local_rows, 2}, std::vector<float>(static_cast<std::size_t>(local_rows * 2))),
      std::move(sharding)};
}

struct Layer {
  std::int32_t rank, replica, addend;
  Box box;
  friend bool operator==(const Layer&, const Layer&) = default;
};

std::vector<Layer> layers(const CatalogTensor& tensor) {
  std::vector<Layer> all;
  for (const Piece& p : tensor.pieces) all.push_back({p.rank, p.replica, p.addend, p.box});
  return all;
}

// The sizes are torch.chunk's: 5 rows over 4 ranks are 2, 2, 1, 0.
TEST(CatalogBuilder, ShardedRowsAndAnEmptyShard) {
  const auto sharding = make_sharding({4}, {0, 1, 2, 3}, {Shard{0}}, {5, 2});
  const auto catalog =
      join({make_dict({{"w", rows_of(sharding, 2)}}), make_dict({{"w", rows_of(sharding, 2)}}),
            make_dict({{"w", rows_of(sharding, 1)}}), make_dict({{"w", rows_of(sharding, 0)}})});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(layers(catalog->tensors[0]), (std::vector<Layer>{{0, 0, 0, {{0, 0}, {2, 2}}},
                                                             {1, 0, 0, {{2, 0}, {2, 2}}},
                                                             {2, 0, 0, {{4, 0}, {1, 2}}}}));
}

// The local tensor may repeat one row, so that the file is small, whatever it asks for.
TEST(CatalogBuilder, StridedShardsOfTooManyPiecesAreRefused) {
  const std::int64_t groups = 65536;
  const auto sharding = make_sharding({2}, {0, 1}, {StridedShard{0, groups}}, {2 * groups, 2});
  DTensor tensor = rows_of(sharding, 1);
  tensor.local.shape = {groups, 2};
  tensor.local.strides = {0, 1};
  Dict root;
  root.items.emplace_back("w0", tensor);
  EXPECT_THAT(join({Value(root), Value(root)}), IsOk());
  for (int i = 1; i < 9; ++i) root.items.emplace_back("w" + std::to_string(i), tensor);
  EXPECT_THAT(join({Value(root), Value(root)}),
              Fails(ErrorCode::kLimit,
                    "the strided shards of the tensors are of too many pieces: tensor 'w8', "
                    "found 65536 on rank 0 alone"));
}

TEST(CatalogBuilder, TheMeshArraySaysWhichRankIsWhere) {
  const auto sharding = make_sharding({2, 2}, {1, 3, 0, 2}, {Replicate{}, Shard{0}}, {4, 2});
  const Value file = make_dict({{"w", rows_of(sharding, 2)}});
  const auto catalog = join({file, file, file, file});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(layers(catalog->tensors[0]), (std::vector<Layer>{{0, 0, 0, {{0, 0}, {2, 2}}},
                                                             {2, 0, 0, {{2, 0}, {2, 2}}},
                                                             {1, 1, 0, {{0, 0}, {2, 2}}},
                                                             {3, 1, 0, {{2, 0}, {2, 2}}}}))
      << "the replica that holds rank 0 comes first";
  EXPECT_TRUE(catalog->warnings.empty());
}

// 3 rows over the line of ranks 1, 0: FSDP2 gives rank 0 the first 2 (its place in the sorted
// process group), a chunk chosen by coordinate would give them to rank 1.
TEST(CatalogBuilder, UnevenShardsTellTheOrderOfRanks) {
  const auto uneven = make_sharding({2}, {1, 0}, {Shard{0}}, {3, 2});
  const auto even = make_sharding({2}, {1, 0}, {Shard{0}}, {4, 2});
  const auto by_group = join({make_dict({{"u", rows_of(uneven, 2)}, {"e", rows_of(even, 2)}}),
                              make_dict({{"u", rows_of(uneven, 1)}, {"e", rows_of(even, 2)}})});
  ASSERT_THAT(by_group, IsOk());
  EXPECT_EQ(layers(by_group->tensors[1]),
            (std::vector<Layer>{{0, 0, 0, {{0, 0}, {2, 2}}}, {1, 0, 0, {{2, 0}, {2, 2}}}}));
  EXPECT_TRUE(by_group->warnings.empty());
  const auto by_array = join({make_dict({{"e", rows_of(even, 2)}, {"u", rows_of(uneven, 1)}}),
                              make_dict({{"e", rows_of(even, 2)}, {"u", rows_of(uneven, 2)}})});
  ASSERT_THAT(by_array, IsOk());
  EXPECT_EQ(layers(by_array->tensors[0]),
            (std::vector<Layer>{{1, 0, 0, {{0, 0}, {2, 2}}}, {0, 0, 0, {{2, 0}, {2, 2}}}}));
  EXPECT_THAT(join({make_dict({{"u", rows_of(uneven, 2)}, {"v", rows_of(uneven, 1)}}),
                    make_dict({{"u", rows_of(uneven, 1)}, {"v", rows_of(uneven, 2)}})}),
              Fails(ErrorCode::kIncomplete, "different orders: tensor 'v'"));
}

TEST(CatalogBuilder, EvenShardsOutOfOrderFollowTheProcessGroupsWithAWarning) {
  const auto even = make_sharding({2}, {1, 0}, {Shard{0}}, {4, 2});
  const Value file = make_dict({{"e", rows_of(even, 2)}});
  const auto catalog = join({file, file});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->tensors[0].pieces[0].rank, 0);
  ASSERT_EQ(catalog->warnings.size(), 1u);
  EXPECT_NE(catalog->warnings[0].find("do not count upwards"), std::string::npos);
}

// Line by line PyTorch's full_tensor() joins the shards of ranks 0 and 3 on rank 0, of 1 and 2 on
// rank 1, which are not the lines that fully_shard() cut along: its ranks read different tensors.
TEST(CatalogBuilder, EvenShardsThatPyTorchsRanksReadDifferentlyAreRefused) {
  const auto even = make_sharding({2, 2}, {0, 3, 1, 2}, {Shard{0}, Shard{0}}, {4, 2});
  const Value undecided = make_dict({{"e", rows_of(even, 1)}});
  EXPECT_THAT(join({undecided, undecided, undecided, undecided}),
              Fails(ErrorCode::kIncomplete,
                    "read different tensors, and no local shape tells who "
                    "holds what: tensor 'e'"));
  const auto uneven = make_sharding({2, 2}, {0, 3, 1, 2}, {Shard{0}, Replicate{}}, {3, 2});
  std::vector<Value> files;
  for (const std::int64_t rows : {2, 1, 2, 1})  // 1 and 3 are second in their sorted lines
    files.push_back(make_dict({{"e", rows_of(even, 1)}, {"u", rows_of(uneven, rows)}}));
  const auto decided = join(std::move(files));
  ASSERT_THAT(decided, IsOk());
  EXPECT_EQ(layers(decided->tensors[0]), (std::vector<Layer>{{0, 0, 0, {{0, 0}, {1, 2}}},
                                                             {2, 0, 0, {{1, 0}, {1, 2}}},
                                                             {1, 0, 0, {{2, 0}, {1, 2}}},
                                                             {3, 0, 0, {{3, 0}, {1, 2}}}}));
}

/// Ranks of four that are there, each with a state dict.
Result<Catalog> join_some(const std::vector<std::pair<std::int64_t, Value>>& ranks,
                          std::vector<std::int64_t> missing,
                          PlainTensors plain = PlainTensors::kAuto) {
  CatalogBuilder builder(4, std::move(missing));
  for (const auto& [rank, state] : ranks)
    SHARDKIT_TRY(builder.add(rank, "rank" + std::to_string(rank), state));
  return std::move(builder).finish(plain);
}

// Expert parallelism: each half of the experts lies on a mesh of its own, under the same name.
TEST(CatalogBuilder, MissingRanksOfAnotherMeshMayHoldOtherExperts) {
  const auto all = make_sharding({2, 2}, {0, 1, 2, 3}, {Replicate{}, Shard{0}}, {4, 2});
  const auto low = make_sharding({2}, {0, 1}, {Shard{0}}, {4, 2});
  const auto high = make_sharding({2}, {2, 3}, {Shard{0}}, {4, 2});
  const Value first = make_dict({{"w", rows_of(all, 2)}, {"experts", rows_of(low, 2)}});
  const Value second = make_dict({{"w", rows_of(all, 2)}, {"experts", rows_of(high, 2)}});
  EXPECT_THAT(join_some({{0, first}, {1, first}}, {2, 3}),
              Fails(ErrorCode::kIncomplete,
                    "nothing proves that the missing ranks hold only "
                    "copies of what the others hold: tensor 'experts'"));
  EXPECT_THAT(join_some({{0, first}, {1, first}, {2, second}}, {3}),
              Fails(ErrorCode::kIncomplete, "a part of every copy: tensor 'experts'"));
  EXPECT_THAT(join_some({{0, first}, {1, first}, {2, second}, {3, second}}, {}), IsOk());
  const Value copies = make_dict({{"w", rows_of(all, 2)}});
  EXPECT_THAT(join_some({{0, copies}, {1, copies}}, {2, 3}), IsOk());
}

TEST(CatalogBuilder, MissingRanksHaveChunksOfTheirOwn) {
  const auto all = make_sharding({2, 2}, {0, 1, 2, 3}, {Replicate{}, Shard{0}}, {4, 2});
  const Value file = make_dict({{"w", rows_of(all, 2)}, {"plain", float_tensor({1}, {1})}});
  EXPECT_THAT(join_some({{0, file}, {1, file}}, {2, 3}), IsOk());
  EXPECT_THAT(join_some({{0, file}, {1, file}}, {2, 3}, PlainTensors::kConcat),
              Fails(ErrorCode::kIncomplete, "chunk of a plain tensor: tensor 'plain'"));
}

// Ranks 1 and 0 are both first in their sorted lines, in both dimensions: nobody would hold half.
TEST(CatalogBuilder, AnOrderThatLeavesShardsToNobodyIsNone) {
  const auto both = make_sharding({2, 2}, {3, 1, 0, 2}, {Shard{0}, Shard{0}}, {4, 2});
  const Value file = make_dict({{"w", rows_of(both, 1)}});
  const auto catalog = join({file, file, file, file});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->tensors[0].pieces[0].rank, 3);
}

TEST(CatalogBuilder, SubmeshesReplicateEachOther) {
  const auto even = make_sharding({2}, {0, 2}, {Shard{0}}, {4, 2});
  const auto odd = make_sharding({2}, {1, 3}, {Shard{0}}, {4, 2});
  const auto catalog =
      join({make_dict({{"w", rows_of(even, 2)}}), make_dict({{"w", rows_of(odd, 2)}}),
            make_dict({{"w", rows_of(even, 2)}}), make_dict({{"w", rows_of(odd, 2)}})});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->tensors[0].replicas, 2);
  EXPECT_EQ(catalog->tensors[0].pieces[0].rank, 0);
  EXPECT_EQ(catalog->tensors[0].pieces[1].rank, 2);
}

TEST(CatalogBuilder, AParameterOnASubmeshMayBeAbsentElsewhere) {
  const auto sharding = make_sharding({2}, {1, 2}, {Shard{0}}, {4, 2});
  const Value with = make_dict({{"w", rows_of(sharding, 2)}});
  const Value without = make_dict({});
  EXPECT_THAT(join({without, with, with}), IsOk());
  EXPECT_THAT(join({without, with, without}), Fails(ErrorCode::kIncomplete, "not on ranks 2"));
}

TEST(CatalogBuilder, PartialAddendsAreNumberedInMeshOrder) {
  const auto sharding = make_sharding({2}, {1, 0}, {Partial{ReduceOp::kAvg}}, {1, 2});
  const Value file = make_dict({{"w", rows_of(sharding, 1)}});
  const auto catalog = join({file, file});
  ASSERT_THAT(catalog, IsOk());
  const CatalogTensor& tensor = catalog->tensors[0];
  EXPECT_EQ(tensor.reduction, Accumulation::kAvg);
  EXPECT_EQ(tensor.divisor, 2);
  EXPECT_EQ(layers(tensor),
            (std::vector<Layer>{{1, 0, 0, {{0, 0}, {1, 2}}}, {0, 0, 1, {{0, 0}, {1, 2}}}}));
}

TEST(CatalogBuilder, ALocalShapeThatPlacementsDoNotExplainIsRefused) {
  const auto sharding = make_sharding({2}, {0, 1}, {Shard{0}}, {4, 2});
  EXPECT_THAT(
      join({make_dict({{"w", rows_of(sharding, 3)}}), make_dict({{"w", rows_of(sharding, 2)}})}),
      Fails(ErrorCode::kIncomplete,
            "a local shape does not fit the placements: tensor 'w', expected 2 in "
            "dimension 0 at mesh coordinate [0], found local shape [3, 2]"));
}

TEST(CatalogBuilder, RanksMustAgree) {
  const auto sharding = make_sharding({2}, {0, 1}, {Shard{0}}, {4, 2});
  const Value good = make_dict({{"w", rows_of(sharding, 2)}});
  const auto larger = make_sharding({2}, {0, 1}, {Shard{0}}, {6, 2});
  EXPECT_THAT(join({good, make_dict({{"w", rows_of(larger, 3)}})}),
              Fails(ErrorCode::kIncomplete, "ranks 0 and 1 disagree on the global shape"));
  const auto replicated = make_sharding({2}, {0, 1}, {Replicate{}}, {4, 2});
  EXPECT_THAT(join({good, make_dict({{"w", rows_of(replicated, 4)}})}),
              Fails(ErrorCode::kIncomplete, "disagree on the mesh or placements"));
  DTensor other_dtype = rows_of(sharding, 2);
  other_dtype.local.dtype = DType::kInt32;
  EXPECT_THAT(join({good, make_dict({{"w", other_dtype}})}),
              Fails(ErrorCode::kIncomplete, "disagree on the dtype"));
  EXPECT_THAT(join({good, make_dict({{"w", float_tensor({1}, {1})}})}),
              Fails(ErrorCode::kIncomplete, "disagree on the kind"));
  EXPECT_THAT(join({good, make_dict({})}), Fails(ErrorCode::kIncomplete, "not on ranks 1"));
  EXPECT_THAT(join({good, make_dict({{"w", None{}}})}),
              Fails(ErrorCode::kIncomplete, "not on ranks 1"));
  const auto elsewhere = make_sharding({2}, {1, 2}, {Shard{0}}, {4, 2});
  const Value moved = make_dict({{"w", rows_of(elsewhere, 2)}});
  EXPECT_THAT(join({good, moved, moved}),
              Fails(ErrorCode::kIncomplete,
                    "the device mesh of rank 0 has rank 1, whose tensor is on another mesh: tensor "
                    "'w', expected 2 of ranks 0-1"));
  EXPECT_THAT(join({good, good, good}),
              Fails(ErrorCode::kIncomplete,
                    "rank 2 holds elements of the tensor but is not in its "
                    "device mesh: tensor 'w', found 2 of ranks 0-1"));
  EXPECT_THAT(join({make_dict({{"w", None{}}}), moved, moved}),
              Fails(ErrorCode::kIncomplete,
                    "some ranks hold a tensor under this name, others "
                    "something else: tensor 'w', found None"));
  const auto foreign = make_sharding({2}, {0, 7}, {Shard{0}}, {4, 2});
  EXPECT_THAT(
      join({make_dict({{"w", rows_of(foreign, 2)}}), make_dict({{"w", rows_of(foreign, 0)}})}),
      Fails(ErrorCode::kIncomplete, "rank 7"));
}

TEST(CatalogBuilder, PlainTensorsBesideDTensorsAreReplicas) {
  const auto sharding = make_sharding({2}, {0, 1}, {Shard{0}}, {4, 2});
  const Value file = make_dict({{"w", rows_of(sharding, 2)}, {"b", float_tensor({2}, {1, 2})}});
  const auto catalog = join({file, file});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->tensors[1].shape, Dims{2});
  EXPECT_EQ(catalog->tensors[1].replicas, 2);
  const Value other = make_dict({{"w", rows_of(sharding, 2)}, {"b", float_tensor({1}, {1})}});
  EXPECT_THAT(join({file, other}),
              Fails(ErrorCode::kIncomplete, "plain copies of ranks 0 and 1 differ in shape"));
}

TEST(CatalogBuilder, PlainTensorsAloneAreChunks) {
  const Value a =
      make_dict({{"w", float_tensor({2, 2}, {1, 2, 3, 4})}, {"n", float_tensor({}, {1})}});
  const Value b = make_dict({{"w", float_tensor({1, 2}, {5, 6})}, {"n", float_tensor({}, {1})}});
  const auto catalog = join({a, b});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->tensors[0].shape, (Dims{3, 2}));
  EXPECT_TRUE(catalog->tensors[0].concatenated);
  EXPECT_TRUE(catalog->tensors[0].guessed) << "they may as well be replicas";
  EXPECT_FALSE(catalog->tensors[1].guessed);
  const auto told = join({a, b}, PlainTensors::kConcat);
  ASSERT_THAT(told, IsOk());
  EXPECT_TRUE(told->tensors[0].concatenated);
  EXPECT_FALSE(told->tensors[0].guessed);
  EXPECT_EQ(catalog->tensors[1].shape, Dims{}) << "a tensor without dimensions is a replica";
  EXPECT_EQ(catalog->tensors[1].replicas, 2);
  EXPECT_THAT(join({a, b}, PlainTensors::kReplicate),
              Fails(ErrorCode::kIncomplete, "differ in shape"));
  const Value wide =
      make_dict({{"w", float_tensor({1, 3}, {5, 6, 7})}, {"n", float_tensor({}, {1})}});
  EXPECT_THAT(join({a, wide}), Fails(ErrorCode::kIncomplete, "do not join on dimension 0"));
}

// An expanded tensor of 4 bytes may have any number of elements.
TEST(CatalogBuilder, ChunksThatJoinToMoreThanATensorCanHoldAreRefused) {
  const auto chunk = [](Dims shape) {
    Tensor tensor = float_tensor({1}, {1});
    tensor.strides = Dims(shape.size(), 0);
    tensor.shape = std::move(shape);
    return make_dict({{"w", tensor}});
  };
  const Value rows = chunk({std::numeric_limits<std::int64_t>::max(), 0});
  EXPECT_THAT(join({rows, rows}),
              Fails(ErrorCode::kIncomplete, "the chunks of all ranks have too many rows"));
  const Value elements = chunk({1 << 30, 1 << 30});
  EXPECT_THAT(join(std::vector<Value>(8, elements)),
              Fails(ErrorCode::kIncomplete,
                    "the chunks of all ranks have too many elements: "
                    "tensor 'w', found [8589934592, 1073741824]"));
}

TEST(CatalogBuilder, OneRankIsWhole) {
  const auto catalog = join({make_dict({{"w", float_tensor({2}, {1, 2})}})});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_FALSE(catalog->tensors[0].concatenated);
}

TEST(CatalogBuilder, ShardsOfOneBoxAreReplicas) {
  ShardedTensor tensor;
  tensor.shape = {3};
  tensor.shards = {{{{0}, {2}}, 0}, {{{2}, {1}}, 1}};
  ShardedTensor first = tensor, second = tensor;
  first.local_shards = {{tensor.shards[0], float_tensor({2}, {1, 2})}};
  second.local_shards = {{tensor.shards[1], float_tensor({1}, {3})}};
  const auto catalog = join({make_dict({{"w", first}}), make_dict({{"w", second}}),
                             make_dict({{"w", first}}), make_dict({{"w", second}})});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(layers(catalog->tensors[0]), (std::vector<Layer>{{0, 0, 0, {{0}, {2}}},
                                                             {1, 0, 0, {{2}, {1}}},
                                                             {2, 1, 0, {{0}, {2}}},
                                                             {3, 1, 0, {{2}, {1}}}}));
  first.shards[1].box.shape = {2};
  EXPECT_THAT(join({make_dict({{"w", first}}), make_dict({{"w", second}})}),
              Fails(ErrorCode::kIncomplete, "disagree on the shards"));
}

TEST(CatalogBuilder, AShardIsWhereItsMetadataSays) {
  ShardedTensor tensor;
  tensor.shape = {3};
  tensor.shards = {{{{0}, {2}}, 0}, {{{2}, {1}}, 1}};
  tensor.local_shards = {{tensor.shards[0], float_tensor({1}, {1})}};
  EXPECT_THAT(join({make_dict({{"w", tensor}})}),
              Fails(ErrorCode::kIncomplete,
                    "the shard of rank 0 is not of the size that its "
                    "metadata says: tensor 'w', expected [2], found [1]"));
  tensor.local_shards[0].metadata.box = {{1}, {1}};
  EXPECT_THAT(join({make_dict({{"w", tensor}})}),
              Fails(ErrorCode::kCorrupt,
                    "the ShardedTensor's metadata does not list: tensor 'w', "
                    "found [1:2]"));
}

// FSDP1 over a tensor-parallel ShardedTensor: each rank knows its own shards alone.
TEST(CatalogBuilder, ShardsOfOtherRanksNeedNotBeListed) {
  ShardedTensor first, second;
  first.shape = second.shape = {3};
  first.local_shards = {{{{{0}, {2}}, 0}, float_tensor({2}, {1, 2})}};
  second.local_shards = {{{{{2}, {1}}, 1}, float_tensor({1}, {3})}};
  const auto catalog = join({make_dict({{"w", first}}), make_dict({{"w", second}})});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->tensors[0].pieces.size(), 2u);
}

TEST(CatalogBuilder, TheKeysOfAStateDictAreStrings) {
  Dict dict;
  dict.items.emplace_back(Value(std::int64_t{3}), float_tensor({1}, {1}));
  EXPECT_THAT(join({dict}),
              Fails(ErrorCode::kUnsupported,
                    "a key of the state dict is not a string: found int, file 'rank0'"));
}

TEST(CatalogBuilder, EveryRankIsAddedOnce) {
  const Value file = make_dict({{"w", float_tensor({1}, {1})}});
  CatalogBuilder builder(4, {2});
  EXPECT_THAT(builder.add(0, "f", file), IsOk());
  for (const std::int64_t rank : {-1, 0, 2, 4})
    EXPECT_THAT(builder.add(rank, "f", file),
                Fails(ErrorCode::kInvalidArgument,
                      "rank " + std::to_string(rank) + " was added before, or is none of the"));
  EXPECT_THAT(std::move(builder).finish(PlainTensors::kAuto),
              Fails(ErrorCode::kInvalidArgument,
                    "not every rank was added before finish(): expected 3 ranks, found 1"));
}

TEST(CatalogBuilder, WrapperNamesComeOffAndMayNotCollide) {
  const auto catalog = join({make_dict({{"_orig_mod.w", float_tensor({1}, {1})}})});
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->tensors[0].name, "w");
  EXPECT_THAT(
      join({make_dict({{"w", float_tensor({1}, {1})}, {"module.w", float_tensor({1}, {1})}})}),
      Fails(ErrorCode::kCorrupt, "'w' and 'module.w'"));
}

TEST(CatalogBuilder, EntriesThatAreNoTensorsAreListed) {
  const auto catalog =
      join({make_dict({{"w", float_tensor({1}, {1})},
                       {"m._extra_state", make_dict({{"t", float_tensor({1}, {1})}})},
                       {"step", std::int64_t{3}}})});
  ASSERT_THAT(catalog, IsOk());
  ASSERT_EQ(catalog->skipped.size(), 2u);
  EXPECT_EQ(catalog->skipped[0].name, "m._extra_state");
  EXPECT_EQ(catalog->skipped[1].kind, "int");
  EXPECT_THAT(join({make_dict({{"state_dict", make_dict({{"w", float_tensor({1}, {1})}})}})}),
              Fails(ErrorCode::kUnsupported, "tensors inside a container"));
}

TEST(CatalogBuilder, NamesForTheSameBytesAreFound) {
  const Tensor shared = float_tensor({2}, {1, 2});
  const auto catalog =
      join({make_dict({{"a", shared}, {"b", float_tensor({2}, {1, 2})}, {"c", shared}})});
  ASSERT_THAT(catalog, IsOk());
  ASSERT_EQ(catalog->shared.size(), 1u);
  EXPECT_EQ(catalog->shared[0].first, 0u);
  EXPECT_EQ(catalog->shared[0].second, 2u);
}

TEST(CatalogBuilder, ViewsThatBeginAtOnePlaceAreNotTheSameBytes) {
  const Tensor whole = float_tensor({2, 2}, {1, 2, 3, 4});
  Tensor row = whole, column = whole, other_rank = float_tensor({2}, {1, 2});
  row.shape = column.shape = {2};
  row.strides = {1};
  column.strides = {2};
  const Value root =
      make_dict({{"whole", whole}, {"row", row}, {"column", column}, {"again", row}});
  const Value other =
      make_dict({{"whole", whole}, {"row", row}, {"column", column}, {"again", other_rank}});
  const auto catalog = join({root});
  ASSERT_THAT(catalog, IsOk());
  ASSERT_EQ(catalog->shared.size(), 1u);
  EXPECT_EQ(catalog->shared[0].first, 1u);
  EXPECT_EQ(catalog->shared[0].second, 3u);
  const auto two_ranks = join({root, other});
  ASSERT_THAT(two_ranks, IsOk());
  EXPECT_TRUE(two_ranks->shared.empty());
}

}  // namespace
}  // namespace shardkit
