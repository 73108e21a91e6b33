// Comparing trees: what counts as a difference, and where it is said to be.
#include "shardkit/state/compare.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::float_tensor;
using testing::list;
using testing::make_dict;
using testing::make_sharding;
using testing::meta_tensor;
using testing::number;
using testing::tensor_in_file;

// "path: what", or "none".
std::string shown(const std::optional<Difference>& difference) {
  return difference ? to_string(difference->path) + ": " + difference->what : "none";
}
std::string similarity(const Value& a, const Value& b) {
  return shown(check_state_dict_similarity(a, b));
}
std::string difference(const Value& a, const Value& b) {
  return shown(find_difference(a, b).value());
}

DTensor dtensor(Dims global, std::vector<Placement> placements, Dims local,
                std::vector<std::int64_t> ranks = {0, 1}) {
  const auto count = static_cast<std::size_t>(element_count(local).value());
  return {float_tensor(local, std::vector<float>(count, 1)),
          make_sharding({2}, std::move(ranks), std::move(placements), std::move(global))};
}

ShardedTensor sharded(Box box, std::int64_t rank) {
  ShardedTensor made;
  made.shape = {4};
  made.local_shards.push_back({{box, rank}, float_tensor(box.shape, {1, 2})});
  made.shards = {{box, rank}};
  return made;
}

TEST(Similarity, ValuesAndLayoutDoNotMatter) {
  Tensor transposed = float_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  transposed.strides = {1, 2};
  const Value a = make_dict({{"w", float_tensor({2, 3}, {6, 5, 4, 3, 2, 1})},
                             {"n", number(1)},
                             {"l", list({std::string("x"), None()})}});
  const Value b = make_dict({{"l", list({std::string("y"), None()})},
                             {"n", BigInt{std::string(9, '\x01')}},
                             {"w", transposed}});
  EXPECT_EQ(similarity(a, b), "none");
  EXPECT_EQ(similarity(make_dict({{"w", tensor_in_file()}}),
                       make_dict({{"w", meta_tensor(DType::kFloat32, {2})}})),
            "none");
}

TEST(Similarity, NamesTheFirstDifference) {
  const auto against = [](const Value& a, const Value& b) {
    return similarity(make_dict({{"same", number(1)}, {"in", make_dict({{"x", a}})}}),
                      make_dict({{"in", make_dict({{"x", b}})}, {"same", number(2)}}));
  };
  const Tensor tensor = float_tensor({2}, {1, 2});
  EXPECT_EQ(against(tensor, float_tensor({1, 2}, {1, 2})), "in.x: shape [2] against [1, 2]");
  EXPECT_EQ(against(tensor, testing::make_tensor<std::int32_t>(DType::kInt32, {2}, {1, 2})),
            "in.x: float32 against int32");
  EXPECT_EQ(against(tensor, number(1)), "in.x: Tensor against int");
  EXPECT_EQ(against(number(1), tensor), "in.x: int against Tensor");
  EXPECT_EQ(against(number(1), true), "in.x: int against bool");
  EXPECT_EQ(against(None(), number(1)), "in.x: None against int");
  EXPECT_EQ(against(list({}), Tuple()), "in.x: list against tuple");
  EXPECT_EQ(against(list({number(1)}), list({})), "in.x: 1 items against 0");
  EXPECT_EQ(against(list({number(1), list({tensor})}), list({number(1), list({number(2)})})),
            "in.x.1.0: Tensor against int");
  EXPECT_EQ(against(Opaque{"a.B", {}}, Opaque{"a.C", {}}), "in.x: a.B against a.C");
  EXPECT_EQ(against(Opaque{"a.B", {number(1)}}, Opaque{"a.B", {1.5}}), "in.x.0: int against float");
}

TEST(Similarity, KeysMustBeTheSameAndOfTheSameKind) {
  const Value one = Dict{{{number(1), number(1)}}};
  const Value text_one = make_dict({{"1", number(1)}});
  EXPECT_EQ(similarity(one, text_one), ": the key \"1\" (int) is missing on the other side");
  EXPECT_EQ(similarity(make_dict({{"a", number(1)}}), make_dict({{"a", None()}, {"b", None()}})),
            ": the key \"b\" (str) is only on the other side");
  const Value twice = make_dict({{"a", number(1)}, {"a", number(1)}});
  EXPECT_EQ(similarity(twice, make_dict({{"a", number(1)}, {"b", number(1)}})),
            ": the key \"a\" (str) is missing on the other side");
  EXPECT_EQ(similarity(make_dict({{"a", number(1)}}), twice),
            ": a key comes twice on the other side");
  const auto pair_key = [](std::int64_t n) {
    return Value(Dict{{{Tuple{{number(1), number(n)}}, number(1)}}});
  };
  EXPECT_EQ(similarity(pair_key(2), pair_key(2)), "none");
  EXPECT_EQ(similarity(pair_key(2), pair_key(3)),
            ": the key \"<tuple>\" (tuple) is missing on the other side");
}

TEST(Similarity, DTensorsByMeshPlacementsAndShapes) {
  const Value base = dtensor({4, 2}, {Shard{0}}, {2, 2});
  EXPECT_EQ(similarity(base, dtensor({4, 2}, {Shard{0}}, {2, 2})), "none");
  EXPECT_EQ(similarity(base, float_tensor({2, 2}, {1, 1, 1, 1})), ": DTensor against Tensor");
  EXPECT_EQ(similarity(base, dtensor({4, 2}, {Shard{1}}, {2, 2})),
            ": placements [S(0)] against [S(1)]");
  EXPECT_EQ(similarity(base, dtensor({3, 2}, {Shard{0}}, {2, 2})),
            ": global shape [4, 2] against [3, 2]");
  EXPECT_EQ(similarity(base, dtensor({4, 2}, {Shard{0}}, {1, 2})),
            ": local shape [2, 2] against [1, 2]");
  EXPECT_EQ(similarity(base, dtensor({4, 2}, {Shard{0}}, {2, 2}, {1, 2})).substr(0, 11),
            ": mesh cpu ");
  DTensor ordered = dtensor({4, 2}, {Shard{0}}, {2, 2});
  Sharding sharding = *ordered.sharding;
  sharding.shard_order = {{0, {0}}};
  ordered.sharding = std::make_shared<const Sharding>(sharding);
  EXPECT_EQ(similarity(base, ordered), ": another order of sharding");
}

TEST(Similarity, ShardedTensorsByMetadata) {
  const Value base = sharded({{0}, {2}}, 0);
  EXPECT_EQ(similarity(base, sharded({{0}, {2}}, 0)), "none");
  EXPECT_EQ(similarity(base, sharded({{2}, {2}}, 0)),
            ": local shard 0 is [0:2] on rank 0 against [2:4] on rank 0");
  EXPECT_EQ(similarity(base, sharded({{0}, {2}}, 1)),
            ": local shard 0 is [0:2] on rank 0 against [0:2] on rank 1");
  ShardedTensor other = sharded({{0}, {2}}, 0);
  other.shards.push_back({{{2}, {2}}, 1});
  EXPECT_EQ(similarity(base, other), ": 1 shards against 2");
  other = sharded({{0}, {2}}, 0);
  other.shape = {5};
  EXPECT_EQ(similarity(base, other), ": global shape [4] against [5]");
}

TEST(Difference, TensorsBitByBitWhateverTheirLayout) {
  const Tensor dense = float_tensor({2, 3}, {1, 3, 5, 2, 4, 6});
  Tensor transposed = float_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  transposed.strides = {1, 2};
  EXPECT_EQ(difference(dense, transposed), "none");
  EXPECT_EQ(difference(dense, float_tensor({2, 3}, {1, 3, 5, 2, 7, 6})), ": other bytes at [1, 1]");
  // Rows with a gap between them.
  Tensor rows = float_tensor({2, 3}, {9, 1, 3, 5, 9, 2, 4, 6});
  rows.strides = {4, 1};
  rows.offset = 1;
  EXPECT_EQ(difference(rows, dense), "none");
  EXPECT_EQ(difference(rows, float_tensor({2, 3}, {1, 3, 5, 2, 4, 7})), ": other bytes at [1, 2]");
  EXPECT_EQ(difference(transposed, float_tensor({2, 3}, {1, 3, 5, 2, 4, 7})),
            ": other bytes at [1, 2]");
  Tensor expanded = float_tensor({3, 2}, {1, 2});
  expanded.strides = {0, 1};
  EXPECT_EQ(difference(expanded, float_tensor({3, 2}, {1, 2, 1, 2, 1, 2})), "none");
  EXPECT_EQ(difference(expanded, float_tensor({3, 2}, {1, 2, 1, 2, 3, 2})),
            ": other bytes at [2, 0]");
  EXPECT_EQ(difference(float_tensor({}, {1}), float_tensor({}, {2})), ": other bytes at []");
  EXPECT_EQ(difference(float_tensor({0, 2}, {}), float_tensor({0, 2}, {})), "none");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(difference(float_tensor({1}, {nan}), float_tensor({1}, {nan})), "none");
  EXPECT_EQ(difference(float_tensor({1}, {0.0f}), float_tensor({1}, {-0.0f})),
            ": other bytes at [0]");
}

TEST(Difference, PlainValues) {
  const auto against = [](const Value& a, const Value& b) { return difference(a, b); };
  EXPECT_EQ(against(number(1), number(1)), "none");
  EXPECT_EQ(against(number(1), number(2)), ": another int");
  EXPECT_EQ(against(number(1), 1.0), ": int against float");
  EXPECT_EQ(against(0.0, -0.0), ": another float");
  EXPECT_EQ(against(std::string("a"), std::string("b")), ": another str");
  EXPECT_EQ(against(Bytes{"a"}, Bytes{"a"}), "none");
  EXPECT_EQ(against(Bytes{"a"}, Bytes{"b"}), ": another bytes");
  EXPECT_EQ(against(Set{{number(1), number(2)}}, Set{{number(2), number(1)}}), "none");
  EXPECT_EQ(against(Set{{number(1)}}, Set{{number(2)}}), ": another set");
  EXPECT_EQ(against(Opaque{"a.B", {number(1)}}, Opaque{"a.B", {number(2)}}), "0: another int");
}

TEST(Difference, LocalTensorsOfDistributedOnes) {
  const DTensor a = dtensor({4}, {Shard{0}}, {2});
  DTensor b = a;
  b.local = float_tensor({2}, {1, 2});
  EXPECT_EQ(difference(a, a), "none");
  EXPECT_EQ(difference(a, b), ": other bytes at [1]");
  ShardedTensor of_a = sharded({{0}, {2}}, 0);
  ShardedTensor of_b = of_a;
  of_b.local_shards[0].tensor = float_tensor({2}, {1, 3});
  EXPECT_EQ(difference(of_a, of_b), ": other bytes at [1]");
}

TEST(Difference, NeedsBytesInMemory) {
  const Tensor memory = float_tensor({2}, {1, 2});
  EXPECT_THAT(find_difference(make_dict({{"w", memory}}), make_dict({{"w", tensor_in_file()}})),
              Fails(ErrorCode::kInvalidArgument, "lies in a file"));
  EXPECT_THAT(find_difference(make_dict({{"w", tensor_in_file()}}), make_dict({{"w", memory}})),
              Fails(ErrorCode::kInvalidArgument, "model.pt"));
  const Tensor meta = meta_tensor(DType::kFloat32, {2});
  EXPECT_EQ(difference(meta, meta), "none");
  EXPECT_EQ(difference(meta, memory), ": only one side has bytes, the other is meta");
  Tensor outside = memory;
  outside.offset = 1;
  EXPECT_THAT(find_difference(outside, memory), Fails(ErrorCode::kCorrupt, "leaves its storage"));
}

}  // namespace
}  // namespace shardkit
