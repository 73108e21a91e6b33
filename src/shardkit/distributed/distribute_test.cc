#include "shardkit/distributed/distribute.h"

#include <gtest/gtest.h>

#include "shardkit/distributed/whole_tensors_test_util.h"

namespace shardkit {
namespace {

using testing::empty_dtensor;
using testing::entry;
using testing::expect_all_fail;
using testing::expect_all_ok;
using testing::float_tensor;
using testing::floats;
using testing::make_dict;
using testing::make_sharding;
using testing::meta_tensor;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

Tensor counting(std::int64_t rows) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i) values.push_back(static_cast<float>(i));
  return float_tensor({rows}, values);
}

std::vector<std::int64_t> ranks_below(std::int64_t n) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < n; ++i) ranks.push_back(i);
  return ranks;
}

/// By rank, what it keeps of 0, 1, 2, ... `rows`.
std::vector<std::vector<float>> kept(Dims mesh, std::vector<Placement> placements,
                                     std::int64_t rows, CutOrder order = CutOrder::kSpec) {
  const std::int64_t size = *element_count(mesh);
  const auto sharding =
      make_sharding(std::move(mesh), ranks_below(size), std::move(placements), {rows});
  std::vector<std::vector<float>> parts(static_cast<std::size_t>(size));
  for (const bool meta : {false, true})
    expect_all_ok(static_cast<int>(size), [&](ProcessGroup& group) -> Status {
      Dict local =
          make_dict({{"w", empty_dtensor(DType::kFloat32, sharding, group.rank(), meta, order)}});
      SHARDKIT_TRY(distribute_state_dict(make_dict({{"w", counting(rows)}}), local, group));
      auto& part = parts[static_cast<std::size_t>(group.rank())];
      const auto values = floats(entry<DTensor>(local, "w").local);
      if (meta) {
        EXPECT_EQ(values, part);
      }
      part = values;
      return {};
    });
  return parts;
}

using Parts = std::vector<std::vector<float>>;

// torch.chunk's rule; the sizes are PyTorch's (5 over 4: 2, 2, 1, 0).
TEST(Distribute, UnevenRows) {
  EXPECT_EQ(kept({4}, {Shard{0}}, 5), (Parts{{0, 1}, {2, 3}, {4}, {}}));
  EXPECT_EQ(kept({2, 2}, {Shard{0}, Shard{0}}, 7), (Parts{{0, 1}, {2, 3}, {4, 5}, {6}}));
  EXPECT_EQ(kept({2, 2}, {Replicate{}, Shard{0}}, 3), (Parts{{0, 1}, {2}, {0, 1}, {2}}));
}

// Eight rows: as PyTorch's DTensor has them. Seven: one box a rank, as PyTorch's broadcast takes,
// would give rank 0 the rows 0, 1, 2.
TEST(Distribute, StridedRows) {
  EXPECT_EQ(kept({2, 2}, {StridedShard{0, 2}, Shard{0}}, 8),
            (Parts{{0, 1}, {4, 5}, {2, 3}, {6, 7}}));
  EXPECT_EQ(kept({2}, {StridedShard{0, 2}}, 7), (Parts{{0, 1, 4, 5}, {2, 3, 6}}));
}

// FSDP2 over tensor parallelism, 9 rows on (4, 2): rank (3, 1) holds row 8 and (3, 0) nothing,
// where the placements say the opposite. The local shapes of all ranks tell.
TEST(Distribute, RowsAsFsdp2StoresThem) {
  EXPECT_EQ(kept({4, 2}, {StridedShard{0, 2}, Shard{0}}, 9, CutOrder::kPhysical),
            (Parts{{0, 1}, {5}, {2, 3}, {6}, {4}, {7}, {}, {8}}));
}

TEST(Distribute, EachKindOfEntry) {
  expect_all_ok(2, [](ProcessGroup& group) -> Status {
    const auto sharding = make_sharding({2}, {0, 1}, {Shard{0}}, {4});
    const auto elsewhere = make_sharding({1}, {1}, {Shard{0}}, {4});
    const Tensor plain = float_tensor({4}, {9, 9, 9, 9});
    const Tensor rows = float_tensor({2}, {9, 9});
    const Tensor outside = float_tensor({0}, {});
    Dict local = make_dict({{"plain", plain},
                            {"rows", DTensor{rows, sharding}},
                            {"meta", meta_tensor(DType::kFloat32, {4})},
                            {"none", None{}},
                            {"number", std::int64_t{3}},
                            {"epoch", std::int64_t{3}},
                            {"extra", float_tensor({1}, {8})}});
    if (group.rank() == 0) local.items.emplace_back(Value("outside"), DTensor{outside, elsewhere});
    const Tensor whole = counting(4);
    const Dict full = make_dict({{"plain", whole},
                                 {"rows", whole},
                                 {"meta", whole},
                                 {"none", whole},
                                 {"number", whole},
                                 {"outside", whole},
                                 {"absent", whole},
                                 {"scalar", float_tensor({}, {5})},
                                 {"epoch", std::int64_t{7}},
                                 {"text", std::string("x")}});
    SHARDKIT_TRY(distribute_state_dict(full, local, group));
    const std::vector<float> all{0, 1, 2, 3};
    // In place.
    EXPECT_EQ(entry<Tensor>(local, "plain").storage, plain.storage);
    EXPECT_EQ(floats(plain), all);
    EXPECT_EQ(entry<DTensor>(local, "rows").local.storage, rows.storage);
    EXPECT_EQ(floats(rows),
              group.rank() == 0 ? (std::vector<float>{0, 1}) : (std::vector<float>{2, 3}));
    // In new memory.
    for (const char* name : {"meta", "number"}) {
      EXPECT_EQ(floats(entry<Tensor>(local, name)), all);
      EXPECT_NE(entry<Tensor>(local, name).storage, whole.storage);
    }
    // Left as they are.
    EXPECT_TRUE(find(local, "none")->get_if<None>());
    EXPECT_EQ(floats(entry<Tensor>(local, "extra")), std::vector<float>{8});
    if (group.rank() == 0) {
      EXPECT_EQ(entry<DTensor>(local, "outside").local.storage, outside.storage);
    }
    // Added, and set.
    EXPECT_EQ(find(local, "absent"), nullptr);
    EXPECT_EQ(floats(entry<Tensor>(local, "scalar")), std::vector<float>{5});
    EXPECT_NE(entry<Tensor>(local, "scalar").storage, entry<Tensor>(full, "scalar").storage);
    EXPECT_EQ(entry<std::int64_t>(local, "epoch"), 7);
    EXPECT_EQ(entry<std::string>(local, "text"), "x");
    return {};
  });
}

TEST(Distribute, ScalarsFindTheirTargets) {
  expect_all_ok(2, [](ProcessGroup& group) -> Status {
    const auto sharding = make_sharding({2}, {0, 1}, {Replicate{}}, {});
    const Tensor plain = float_tensor({}, {1});
    Dict local =
        make_dict({{"a", plain}, {"b", DTensor{float_tensor({}, {1}), sharding}}, {"c", None{}}});
    const Tensor five = float_tensor({}, {5});
    const Dict full = make_dict({{"a", five}, {"b", five}, {"c", five}});
    SHARDKIT_TRY(distribute_state_dict(full, local, group));
    EXPECT_EQ(floats(plain), std::vector<float>{5});
    EXPECT_EQ(floats(entry<DTensor>(local, "b").local), std::vector<float>{5});
    EXPECT_EQ(floats(entry<Tensor>(local, "c")), std::vector<float>{5});
    return {};
  });
}

TEST(Distribute, ViewsOnBothSides) {
  expect_all_ok(2, [](ProcessGroup& group) -> Status {
    Tensor whole = float_tensor({6}, {0, 1, 2, 3, 4, 5});  // a 2 x 3 matrix, transposed
    whole.shape = {3, 2};
    whole.strides = {1, 3};
    Tensor rows = float_tensor({8}, {9, 9, 9, 9, 9, 9, 9, 9});
    rows.shape = {2, 2};
    rows.strides = {4, 2};
    rows.offset = 1;
    if (group.rank() == 1) rows.shape = {1, 2};
    Dict local = make_dict({{"w", DTensor{rows, make_sharding({2}, {0, 1}, {Shard{0}}, {3, 2})}}});
    SHARDKIT_TRY(distribute_state_dict(make_dict({{"w", whole}}), local, group));
    Tensor memory = rows;
    memory.shape = {8};
    memory.strides = {1};
    memory.offset = 0;
    const std::vector<float> expected[] = {{9, 0, 9, 3, 9, 1, 9, 4}, {9, 2, 9, 5, 9, 9, 9, 9}};
    EXPECT_EQ(floats(memory), expected[group.rank()]);
    return {};
  });
}

TEST(Distribute, NamedTensorsAlone) {
  expect_all_ok(2, [](ProcessGroup& group) -> Status {
    Dict local = make_dict({{"a", float_tensor({1}, {0})}, {"b", float_tensor({1}, {0})}});
    const Tensor one = float_tensor({1}, {1});
    const Dict full = make_dict({{"a", one}, {"b", one}, {"c", one}, {"n", std::int64_t{1}}});
    const std::vector<std::string> keys{"c", "b"};
    SHARDKIT_TRY(distribute_tensors(full, keys, local, group));
    EXPECT_EQ(floats(entry<Tensor>(local, "a")), std::vector<float>{0});
    EXPECT_EQ(floats(entry<Tensor>(local, "b")), std::vector<float>{1});
    EXPECT_EQ(find(local, "c"), nullptr);
    return {};
  });
  const auto with_keys = [](std::vector<std::string> keys) {
    return [keys](ProcessGroup& group) {
      Dict local = make_dict({{"a", float_tensor({1}, {0})}});
      const Dict full = make_dict({{"a", float_tensor({1}, {1})}, {"n", std::int64_t{1}}});
      return distribute_tensors(full, keys, local, group);
    };
  };
  expect_all_fail(2, with_keys({"b"}), ErrorCode::kNotFound, "no such key: tensor 'b'");
  expect_all_fail(2, with_keys({"n"}), kInvalid, "whole tensors: tensor 'n', found int");
  expect_all_fail(2, with_keys({"a", "a"}), kInvalid, "two tensors have the same path");
}

TEST(Distribute, AFullTensorThatIsTheLocalOneStays) {
  expect_all_ok(1, [](ProcessGroup& group) -> Status {
    const Tensor tensor = counting(4);
    Dict local = make_dict({{"w", tensor}});
    SHARDKIT_TRY(distribute_state_dict(make_dict({{"w", tensor}}), local, group));
    EXPECT_EQ(floats(tensor), (std::vector<float>{0, 1, 2, 3}));
    return {};
  });
}

// One memory cannot hold two weights: of the first nothing would be left.
TEST(Distribute, TiedTensorsMustBeFilledWithTheSame) {
  const auto distribute = [](const Dict& full, const Tensor& tied) {
    return [full, tied](ProcessGroup& group) {
      const Tensor other = counting(4);
      Dict local = make_dict({{"head", group.rank() == 0 ? other : tied}, {"embedding", tied}});
      if (group.rank() == 0) local.items[1].second = counting(4);
      return distribute_state_dict(full, local, group);
    };
  };
  const Tensor tied = float_tensor({4}, {9, 9, 9, 9});
  const Tensor later = float_tensor({4}, {0, 1, 2, 4});
  expect_all_fail(2, distribute(make_dict({{"embedding", counting(4)}, {"head", later}}), tied),
                  kInvalid,
                  "rank 1: the local tensor lies in the memory of 'embedding', which is filled "
                  "with other elements: tensor 'head'");
  EXPECT_EQ(floats(tied), (std::vector<float>{9, 9, 9, 9}));
  expect_all_ok(2,
                distribute(make_dict({{"embedding", counting(4)}, {"head", counting(4)}}), tied));
  EXPECT_EQ(floats(tied), (std::vector<float>{0, 1, 2, 3}));
}

/// Rank 1's local entry is bad, rank 0's is not; all ranks get the error, and nothing is written.
void expect_refused(const Value& full, const Value& bad, ErrorCode code, const std::string& text) {
  const Tensor untouched = counting(4);
  expect_all_fail(
      2,
      [&](ProcessGroup& group) {
        Dict local = make_dict({{"w", group.rank() == 0 ? Value(untouched) : bad}});
        return distribute_state_dict(make_dict({{"w", full}}), local, group);
      },
      code, text);
  EXPECT_EQ(floats(untouched), (std::vector<float>{0, 1, 2, 3}));
}

TEST(Distribute, Refusals) {
  const Tensor whole = float_tensor({4}, {5, 5, 5, 5});
  const auto on = [](std::vector<std::int64_t> ranks, Placement placement, Dims shape = {4}) {
    const auto size = static_cast<std::int64_t>(ranks.size());
    return make_sharding({size}, std::move(ranks), {placement}, std::move(shape));
  };
  expect_refused(whole, float_tensor({3}, {1, 2, 3}), kInvalid,
                 "rank 1: the local tensor has another shape than the whole: tensor 'w', "
                 "expected [4], found [3]");
  expect_refused(whole, meta_tensor(DType::kInt32, {4}), kInvalid,
                 "another dtype than the whole: tensor 'w', expected float32, found int32");
  expect_refused(whole, DTensor{counting(3), on({1}, Shard{0}, {3})}, kInvalid, "found [3]");
  expect_refused(whole, DTensor{counting(4), on({1, 2}, Shard{0})}, kInvalid,
                 "a device mesh has rank 2, which is not in the process group");
  expect_refused(whole, DTensor{counting(4), on({2, 3}, Shard{0})}, kInvalid,
                 "a device mesh has rank 3, which is not in the process group");
  expect_refused(whole, DTensor{counting(4), nullptr}, kInvalid, "no sharding");
  expect_refused(whole, DTensor{counting(4), on({0, 1}, Partial{})}, ErrorCode::kUnsupported,
                 "not split into Partial addends: tensor 'w', found P(sum)");
  expect_refused(whole, ShardedTensor{}, ErrorCode::kUnsupported,
                 "a ShardedTensor cannot be filled");
  expect_refused(whole, DTensor{counting(3), on({1}, Shard{0})}, ErrorCode::kIncomplete,
                 "tensor 'w'");
  // A mesh that rank 0 is in, too, but its entry is plain.
  expect_refused(whole, DTensor{counting(2), on({0, 1}, Shard{0})}, kInvalid,
                 "ranks 1 and 0 disagree on it: DTensor against Tensor: tensor 'w'");
  Tensor expanded = counting(4);
  expanded.strides = {0};
  expect_refused(whole, expanded, kInvalid, "elements of the tensor to be written share memory");
  Tensor in_file = counting(4);
  in_file.storage =
      std::make_shared<const Storage>(FileRange{std::make_shared<const std::string>("f"), 0}, 16);
  expect_refused(whole, in_file, kInvalid, "lies in a file");
  expect_refused(in_file, counting(4), kInvalid, "lies in a file");
  expect_refused(meta_tensor(DType::kFloat32, {4}), counting(4), kInvalid, "has no bytes (meta)");
  expect_refused(DTensor{counting(4), on({0, 1}, Replicate{})}, counting(4), kInvalid,
                 "the full state must hold whole tensors: tensor 'w', found DTensor");
  Tensor shifted = float_tensor({5}, {0, 1, 2, 3, 4});
  Tensor tail = shifted;
  shifted.shape = tail.shape = {4};
  tail.offset = 1;
  expect_refused(shifted, tail, kInvalid, "overlaps the one to be copied: tensor 'w'");
}

TEST(Distribute, AKeyThatIsNoText) {
  expect_all_fail(
      2,
      [](ProcessGroup& group) {
        Dict full;
        full.items.emplace_back(Value(std::int64_t{3}), Value(counting(4)));
        Dict local;
        return distribute_state_dict(full, local, group);
      },
      kInvalid, "a key of the full state is no text: found int");
}

TEST(Distribute, ARankThatDoesNotComeIsAnErrorInTime) {
  const auto statuses =
      run_ranks(3,
                [](ProcessGroup& group) -> Status {
                  if (group.rank() == 2) return {};
                  Dict local = make_dict({{"w", counting(4)}});
                  return distribute_state_dict(make_dict({{"w", counting(4)}}), local, group);
                },
                {std::chrono::seconds(20)});
  for (const std::size_t rank : {0u, 1u})
    EXPECT_THAT(statuses[rank], testing::Fails(ErrorCode::kPeer, "rank 2"));
}

}  // namespace
}  // namespace shardkit
