#include "shardkit/distributed/broadcast.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/distributed/counting_group_test_util.h"
#include "shardkit/distributed/distribute.h"
#include "shardkit/distributed/form_message.h"
#include "shardkit/distributed/whole_tensors_test_util.h"
#include "shardkit/state/compare.h"
#include "shardkit/testing/peak_memory.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using testing::dense_bytes;
using testing::empty_dtensor;
using testing::entry;
using testing::expect_all_fail;
using testing::expect_all_ok;
using testing::float_tensor;
using testing::floats;
using testing::kept_coordinate;
using testing::make_dict;
using testing::make_sharding;
using testing::meta_tensor;
using testing::numbered_tensor;
using testing::part_bytes;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

/// Random whole tensors, and what each rank has of them: plain, sharded in all ways over all ranks
/// or some, meta or not, or nothing.
struct RandomStates {
  RandomStates(int size, std::uint64_t seed) : locals(static_cast<std::size_t>(size)) {
    std::mt19937_64 random(seed);
    const auto below = [&random](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    for (int t = 0; t < 6; ++t) {
      const std::string name = "t" + std::to_string(t);
      const DType dtype = std::vector{DType::kFloat32, DType::kBFloat16, DType::kBool,
                                      DType::kComplex128}[static_cast<std::size_t>(below(4))];
      Dims shape(static_cast<std::size_t>(below(4)), 0);
      for (std::int64_t& each : shape) each = below(9);
      Tensor whole = numbered_tensor(dtype, shape, random());
      if (shape.size() == 2 && below(3) == 0) {
        std::swap(whole.shape[0], whole.shape[1]);
        std::swap(whole.strides[0], whole.strides[1]);
      }
      full.items.emplace_back(Value(name), whole);
      const auto sharding = random_sharding(size, whole.shape, below);
      const std::int64_t kind = below(5);
      for (int rank = 0; rank < size; ++rank) {
        Dict& local = locals[static_cast<std::size_t>(rank)];
        if (kind == 0 && below(2) == 0) continue;
        if (kind <= 1) {
          local.items.emplace_back(Value(name), below(2) == 0
                                                    ? make_cpu_tensor(dtype, whole.shape).value()
                                                    : meta_tensor(dtype, whole.shape));
        } else if (sharding->mesh->coordinate_of(rank)) {
          local.items.emplace_back(Value(name),
                                   empty_dtensor(dtype, sharding, rank, below(2) == 0));
        }
      }
    }
  }

  template <class Below>
  static std::shared_ptr<const Sharding> random_sharding(int size, const Dims& shape,
                                                         const Below& below) {
    const Dims mesh = size % 4 == 0 && below(2) == 0 ? Dims{size / 2, 2}
                      : size > 1 && below(4) == 0    ? Dims{size - 1}
                                                     : Dims{size};
    std::vector<std::int64_t> ranks;
    for (std::int64_t i = 0; i < *element_count(mesh); ++i) ranks.push_back(i);
    if (below(3) == 0) std::reverse(ranks.begin(), ranks.end());
    std::vector<Placement> placements;
    const auto dims = static_cast<std::int64_t>(shape.size());
    bool strided = false;  // a shard behind it could be read in two ways
    for (std::size_t d = 0; d < mesh.size(); ++d) {
      const std::int64_t kind = dims == 0 ? 0 : below(4);
      if (kind == 0 || strided) {
        placements.emplace_back(Replicate{});
      } else if (kind < 3) {
        placements.emplace_back(Shard{below(dims)});
      } else {
        placements.emplace_back(StridedShard{below(dims), 1 + below(3)});
        strided = true;
      }
    }
    return make_sharding(mesh, ranks, placements, shape);
  }

  Dict full;
  std::vector<Dict> locals;  // by rank
};

/// Every target of a rank holds its part of the whole.
void expect_parts(const Dict& full, const Dict& local, int rank) {
  for (const auto& [key, value] : local.items) {
    const Tensor& whole = entry<Tensor>(full, *key.get_if<std::string>());
    if (const auto* tensor = value.get_if<Tensor>()) {
      EXPECT_EQ(dense_bytes(*tensor), dense_bytes(whole));
    } else {
      const auto& dtensor = *value.get_if<DTensor>();
      EXPECT_EQ(dense_bytes(dtensor.local),
                part_bytes(whole, *dtensor.sharding, kept_coordinate(*dtensor.sharding, rank)))
          << testing::sharding_text(*dtensor.sharding);
    }
  }
}

class EveryWorldSize : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EveryWorldSize, ::testing::Values(1, 2, 3, 4, 8));

TEST_P(EveryWorldSize, EachRankGetsItsBoxesAndNoOtherByte) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RandomStates states(GetParam(), seed);
    expect_all_ok(GetParam(), [&](ProcessGroup& group) -> Status {
      Dict& local = states.locals[static_cast<std::size_t>(group.rank())];
      testing::CountingGroup counting(group);
      SHARDKIT_TRY(broadcast_state_dict(group.rank() == 0 ? states.full : Dict(), local, counting));
      expect_parts(states.full, local, group.rank());
      std::uint64_t kept = 0;
      for (const auto& [key, value] : local.items) {
        const auto* dtensor = value.get_if<DTensor>();
        const Tensor& tensor = dtensor ? dtensor->local : *value.get_if<Tensor>();
        const bool scalar = (dtensor ? dtensor->sharding->shape : tensor.shape).empty();
        if (!scalar) kept += static_cast<std::uint64_t>(tensor.bytes());
      }
      if (group.rank() != 0) {
        EXPECT_EQ(counting.scattered_bytes(), kept);
      }
      return {};
    });
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// The same states from a full dict on every rank.
TEST_P(EveryWorldSize, DistributingGivesTheSame) {
  for (std::uint64_t seed = 100; seed < 140; ++seed) {
    RandomStates states(GetParam(), seed);
    expect_all_ok(GetParam(), [&](ProcessGroup& group) -> Status {
      Dict& local = states.locals[static_cast<std::size_t>(group.rank())];
      std::vector<std::string> keys;
      for (const auto& [key, value] : states.full.items) keys.push_back(*key.get_if<std::string>());
      SHARDKIT_TRY(distribute_tensors(states.full, keys, local, group));
      expect_parts(states.full, local, group.rank());
      return {};
    });
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Broadcast, PipelineStagesGetTheirOwnKeysAlone) {
  expect_all_ok(4, [](ProcessGroup& group) -> Status {
    const bool first = group.rank() < 2;
    const auto ranks = first ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{2, 3};
    const auto sharding = make_sharding({2}, ranks, {Shard{0}}, {100});
    Dict full;
    if (group.rank() == 0)
      full = make_dict({{"stage0", numbered_tensor(DType::kFloat32, {100}, 1)},
                        {"stage1", numbered_tensor(DType::kFloat32, {100}, 2)},
                        {"nobody", numbered_tensor(DType::kFloat32, {100}, 3)}});
    Dict local = make_dict({{first ? "stage0" : "stage1",
                             empty_dtensor(DType::kFloat32, sharding, group.rank(), true)}});
    testing::CountingGroup counting(group);
    SHARDKIT_TRY(broadcast_state_dict(full, local, counting));
    EXPECT_EQ(local.items.size(), 1u);
    if (group.rank() != 0) {
      EXPECT_EQ(counting.scattered_bytes(), 200u);
    }
    EXPECT_EQ(counting.scatters(), 2);  // none for what nobody has
    return {};
  });
}

using LayoutOfRank = std::function<std::shared_ptr<const Sharding>(int rank)>;
constexpr std::int64_t kLarge = 512;  // rows and columns; 1 MiB of floats

/// How much memory a broadcast of three large tensors takes on all ranks together, beside the
/// tensors, in sizes of one; and into how many calls it falls.
///
/// @param views  the tensors and their targets lie transposed
double extra_memory(int size, const LayoutOfRank& layout, bool views, int& calls) {
  Dict full;
  std::vector<Dict> locals(static_cast<std::size_t>(size));
  for (const char* name : {"a", "b", "c"}) {
    Tensor whole = numbered_tensor(DType::kFloat32, {kLarge, kLarge}, 7);
    if (views) std::swap(whole.strides[0], whole.strides[1]);
    full.items.emplace_back(Value(std::string(name)), std::move(whole));
    for (int rank = 0; rank < size; ++rank) {
      DTensor target = empty_dtensor(DType::kFloat32, layout(rank), rank);
      if (views) {
        Dims turned{target.local.shape[1], target.local.shape[0]};
        target.local = make_cpu_tensor(DType::kFloat32, turned).value();
        std::swap(target.local.shape[0], target.local.shape[1]);
        std::swap(target.local.strides[0], target.local.strides[1]);
      }
      locals[static_cast<std::size_t>(rank)].items.emplace_back(Value(std::string(name)), target);
    }
  }
  const testing::PeakMemory memory;
  expect_all_ok(size, [&](ProcessGroup& group) -> Status {
    testing::CountingGroup counting(group);
    Dict& local = locals[static_cast<std::size_t>(group.rank())];
    SHARDKIT_TRY(broadcast_state_dict(full, local, counting));
    if (group.rank() == 0) calls = counting.scatters();
    return {};
  });
  const double bytes = static_cast<double>(memory.bytes());
  for (int rank = 0; rank < size; ++rank)
    expect_parts(full, locals[static_cast<std::size_t>(rank)], rank);
  return bytes / (4.0 * kLarge * kLarge);
}

TEST(Broadcast, ExtraMemoryIsAtMostTwoOfTheLargestTensors) {
  if (!testing::PeakMemory::counts()) GTEST_SKIP() << "memory is not counted here";
  int calls = 0;
  const auto over_all = [](Placement placement) {
    return [placement](int) {
      return make_sharding({4}, {0, 1, 2, 3}, {placement}, {kLarge, kLarge});
    };
  };
  // Rows go straight, as do whole tensors.
  EXPECT_LT(extra_memory(4, over_all(Shard{0}), false, calls), 0.1);
  EXPECT_EQ(calls, 3);
  EXPECT_LT(extra_memory(4, over_all(Replicate{}), false, calls), 0.1);
  // Columns are packed.
  const double packed = extra_memory(4, over_all(Shard{1}), false, calls);
  EXPECT_GT(packed, 0.7);
  EXPECT_LT(packed, 1.1);
  EXPECT_EQ(calls, 3);
  // And, where they do not arrive in one run, spread out.
  EXPECT_LT(extra_memory(4, over_all(Shard{1}), true, calls), 2);
  // Several meshes that hold a whole each, cut in different ways: one after another.
  const auto meshes = [](int rank) {
    if (rank < 2) return make_sharding({2}, {0, 1}, {Shard{1}}, {kLarge, kLarge});
    if (rank < 5) return make_sharding({3}, {2, 3, 4}, {Shard{1}}, {kLarge, kLarge});
    return make_sharding({3}, {5, 6, 7}, {StridedShard{1, 2}}, {kLarge, kLarge});
  };
  EXPECT_LT(extra_memory(8, meshes, false, calls), 1.3);
  EXPECT_EQ(calls, 3 * 3);
}

TEST(Broadcast, ValuesThatAreNoTensors) {
  const Value nested = List{{Value(float_tensor({2}, {1, 2})), Value(None{}), Value(true),
                             Value(BigInt{"0123456789"}), Value(Bytes{std::string("\0x", 2)}),
                             Value(Tuple{{Value(1.5)}}), Value(Set{{Value(std::int64_t{-4})}}),
                             Value(testing::make_dict({{"d", std::string("text")}})),
                             Value(Opaque{"a.Class", {Value(float_tensor({1}, {3}))}})}};
  expect_all_ok(3, [&](ProcessGroup& group) -> Status {
    Dict full;
    if (group.rank() == 0)
      full =
          make_dict({{"nested", nested}, {"step", std::int64_t{12}}, {"absent", std::int64_t{1}}});
    Dict local = make_dict({{"step", float_tensor({1}, {0})}, {"nested", None{}}, {"own", true}});
    SHARDKIT_TRY(broadcast_state_dict(full, local, group));
    EXPECT_EQ(local.items.size(), 3u);
    EXPECT_EQ(entry<std::int64_t>(local, "step"), 12);
    EXPECT_TRUE(entry<bool>(local, "own"));
    SHARDKIT_ASSIGN(const auto difference, find_difference(*find(local, "nested"), nested));
    EXPECT_FALSE(difference) << difference->what;
    EXPECT_NE(entry<List>(local, "nested").items[0].get_if<Tensor>()->storage,
              nested.get_if<List>()->items[0].get_if<Tensor>()->storage);
    return {};
  });
}

TEST(Broadcast, TensorsWithoutDimensions) {
  expect_all_ok(2, [](ProcessGroup& group) -> Status {
    const auto sharding = make_sharding({2}, {0, 1}, {Replicate{}}, {});
    Dict full;
    const Tensor seven = float_tensor({}, {7});
    if (group.rank() == 0)
      full = make_dict({{"a", seven}, {"b", seven}, {"c", seven}, {"d", seven}});
    const Tensor plain = float_tensor({}, {0});
    Dict local =
        make_dict({{"a", plain}, {"b", DTensor{float_tensor({}, {0}), sharding}}, {"c", None{}}});
    SHARDKIT_TRY(broadcast_state_dict(full, local, group));
    EXPECT_EQ(floats(plain), std::vector<float>{7});
    EXPECT_EQ(floats(entry<DTensor>(local, "b").local), std::vector<float>{7});
    EXPECT_EQ(floats(entry<Tensor>(local, "c")), std::vector<float>{7});
    EXPECT_EQ(find(local, "d"), nullptr);
    return {};
  });
}

TEST(Broadcast, StrictRemovesWhatRank0Lacks) {
  expect_all_ok(2, [](ProcessGroup& group) -> Status {
    Dict full;
    if (group.rank() == 0)
      full = make_dict({{"w", float_tensor({2}, {1, 2})}, {"n", std::int64_t{1}}});
    const Dict before = make_dict({{"old", float_tensor({1}, {0})},
                                   {"w", meta_tensor(DType::kFloat32, {2})},
                                   {"n", None{}},
                                   {"older", std::int64_t{5}}});
    Dict local = before;
    SHARDKIT_TRY(broadcast_state_dict(full, local, group, {.strict = false, .cpu_offload = true}));
    EXPECT_EQ(local.items.size(), 4u);
    EXPECT_EQ(floats(entry<Tensor>(local, "w")), (std::vector<float>{1, 2}));
    local = before;
    SHARDKIT_TRY(broadcast_state_dict(full, local, group, {.strict = true}));
    EXPECT_EQ(testing::tree_text(local), "{'w': float32[2]/[1]+0 of memory+8, 'n': 1}");
    return {};
  });
}

// Rank 0 is that of the group: here the job's rank 2.
TEST(Broadcast, Rank0OfTheGroup) {
  expect_all_ok(3, [](ProcessGroup& world) -> Status {
    const std::vector<int> ranks = world.rank() == 0 ? std::vector<int>() : std::vector<int>{2, 1};
    SHARDKIT_ASSIGN(const auto group, world.split(ranks));
    if (!group) return {};
    Dict full;
    if (world.rank() == 2) full = make_dict({{"w", float_tensor({3}, {1, 2, 3})}});
    Dict local =
        make_dict({{"w", empty_dtensor(DType::kFloat32, make_sharding({2}, {0, 1}, {Shard{0}}, {3}),
                                       group->rank())}});
    SHARDKIT_TRY(broadcast_state_dict(full, local, *group));
    EXPECT_EQ(floats(entry<DTensor>(local, "w").local),
              world.rank() == 2 ? (std::vector<float>{1, 2}) : std::vector<float>{3});
    return {};
  });
}

TEST(Broadcast, TensorsByName) {
  const Tensor whole = float_tensor({3}, {1, 2, 3});
  const std::vector<NamedTensorInfo> infos{{"w", {{3}, DType::kFloat32}},
                                           {"v", {{3}, DType::kFloat32}}};
  const auto broadcast = [&](ProcessGroup& group, std::span<const NamedTensorInfo> mine,
                             const Dict& full) -> Status {
    Dict local = make_dict({{"w", meta_tensor(DType::kFloat32, {3})}});
    SHARDKIT_TRY(broadcast_tensors(group.rank() == 0 ? full : Dict(), mine, local, group));
    EXPECT_EQ(floats(entry<Tensor>(local, "w")), (std::vector<float>{1, 2, 3}));
    return {};
  };
  const Dict full = make_dict({{"v", whole}, {"w", whole}});
  expect_all_ok(3, [&](ProcessGroup& group) { return broadcast(group, infos, full); });
  expect_all_fail(
      3,
      [&](ProcessGroup& group) {
        return broadcast(group, std::span(infos).first(group.rank() == 2 ? 1 : 2), full);
      },
      kInvalid, "rank 2: the tensors to be broadcast are not those of rank 0");
  expect_all_fail(
      2,
      [&](ProcessGroup& group) {
        return broadcast(group, infos, make_dict({{"w", whole}}));
      },
      ErrorCode::kNotFound, "rank 0: the full state has no such key: tensor 'v'");
  expect_all_fail(
      2,
      [&](ProcessGroup& group) {
        return broadcast(group, infos, make_dict({{"w", whole}, {"v", float_tensor({1}, {1})}}));
      },
      kInvalid, "not what was told of it: tensor 'v', expected float32[3], found float32[1]");
  expect_all_fail(
      2,
      [&](ProcessGroup& group) {
        return broadcast(group, infos, make_dict({{"w", whole}, {"v", None{}}}));
      },
      kInvalid, "whole tensors: tensor 'v', found None");
}

/// Rank 0 has `full`, rank 1 the local entry `bad`, the others nothing.
void expect_refused(const Value& full, const Value& bad, ErrorCode code, const std::string& text) {
  expect_all_fail(
      3,
      [&](ProcessGroup& group) {
        Dict whole;
        if (group.rank() == 0) whole = make_dict({{"w", full}});
        Dict local;
        if (group.rank() == 1) local = make_dict({{"w", bad}});
        return broadcast_state_dict(whole, local, group);
      },
      code, text);
}

TEST(Broadcast, Refusals) {
  const Tensor whole = float_tensor({4}, {5, 5, 5, 5});
  const Tensor local = float_tensor({4}, {0, 0, 0, 0});
  expect_refused(whole, float_tensor({1, 4}, {0, 0, 0, 0}), kInvalid,
                 "rank 1: the local tensor has another shape than the whole: tensor 'w'");
  expect_refused(whole, meta_tensor(DType::kFloat64, {4}), kInvalid,
                 "expected float32, found float64");
  expect_refused(whole, DTensor{local, make_sharding({2}, {1, 2}, {Replicate{}}, {4})}, kInvalid,
                 "rank 2 has no tensor there, which rank 1 shares with it: tensor 'w'");
  expect_refused(whole, DTensor{local, make_sharding({2}, {1, 2}, {Partial{}}, {4})},
                 ErrorCode::kUnsupported, "Partial");
  expect_refused(meta_tensor(DType::kFloat32, {4}), local, kInvalid,
                 "rank 0: the tensor has no bytes (meta): tensor 'w'");
  expect_refused(ShardedTensor{}, local, kInvalid,
                 "rank 0: the full state must hold whole tensors: tensor 'w', found ShardedTensor");
  expect_refused(List{{Value(DTensor{local, make_sharding({1}, {0}, {Replicate{}}, {4})})}}, local,
                 kInvalid, "found DTensor");
  expect_refused(List{{Value(meta_tensor(DType::kFloat32, {4}))}}, local, kInvalid, "no bytes");
  EXPECT_EQ(floats(local), (std::vector<float>{0, 0, 0, 0}));
  expect_all_fail(
      2,
      [](ProcessGroup& group) {
        Dict full;
        full.items.emplace_back(Value(true), Value(true));
        Dict nothing;
        return broadcast_state_dict(group.rank() == 0 ? full : Dict(), nothing, group);
      },
      kInvalid, "rank 0: a key of the full state is no text: found bool");
}

// Rank 0 keeps no 'b', but rank 1 does, and would get what rank 0 writes over it.
TEST(Broadcast, ATargetMayNotOverlapATensorThatAnotherRankIsSent) {
  const Tensor base = float_tensor({8}, {0, 1, 2, 3, 4, 5, 6, 7});
  const auto view = [&](Dims shape, std::int64_t offset) {
    Tensor part = base;
    part.shape = std::move(shape);
    part.strides = contiguous_strides(part.shape);
    part.offset = offset;
    return part;
  };
  const auto broadcast = [&](const Dict& of_rank_0) {
    return [view, of_rank_0](ProcessGroup& group) -> Status {
      Dict full;
      if (group.rank() == 0)
        full = make_dict({{"a", view({4}, 0)}, {"b", view({4}, 4)}, {"c", view({}, 0)}});
      Dict local = of_rank_0;
      if (group.rank() != 0) local = make_dict({{"b", float_tensor({4}, {0, 0, 0, 0})}});
      SHARDKIT_TRY(broadcast_state_dict(full, local, group));
      if (group.rank() != 0) {
        EXPECT_EQ(floats(entry<Tensor>(local, "b")), (std::vector<float>{4, 5, 6, 7}));
      }
      return {};
    };
  };
  expect_all_ok(2, broadcast(make_dict({{"a", view({4}, 0)}})));
  expect_all_ok(
      2, broadcast(make_dict({{"a", view({4}, 0)}, {"b", view({4}, 4)}, {"c", view({}, 0)}})));
  const std::string text = "rank 0: a tensor to be written overlaps the one to be copied: tensor ";
  expect_all_fail(2, broadcast(make_dict({{"a", view({4}, 4)}})), kInvalid, text + "'b'");
  expect_all_fail(2, broadcast(make_dict({{"a", view({4}, 1)}})), kInvalid, text + "'a'");
  expect_all_fail(2, broadcast(make_dict({{"c", view({}, 7)}})), kInvalid, text + "'b'");
  EXPECT_EQ(floats(base), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

// Rank 1 has tied what rank 0 has not; the shards of 'head' differ on rank 2 alone.
TEST(Broadcast, TiedTensorsMustBeFilledWithTheSame) {
  const auto broadcast = [](const std::vector<float>& head) {
    return [head](ProcessGroup& group) -> Status {
      Dict full;
      if (group.rank() == 0)
        full = make_dict(
            {{"embedding", float_tensor({4}, {1, 2, 3, 4})}, {"head", float_tensor({4}, head)}});
      Dict local;
      if (group.rank() > 0) {
        const DTensor tied{float_tensor({2}, {0, 0}), make_sharding({2}, {1, 2}, {Shard{0}}, {4})};
        local = make_dict({{"head", tied}, {"embedding", tied}});
      }
      SHARDKIT_TRY(broadcast_state_dict(full, local, group));
      if (group.rank() == 2) {
        EXPECT_EQ(floats(entry<DTensor>(local, "head").local), (std::vector<float>{3, 4}));
        EXPECT_EQ(entry<DTensor>(local, "head").local.storage,
                  entry<DTensor>(local, "embedding").local.storage);
      }
      return {};
    };
  };
  expect_all_ok(3, broadcast({1, 2, 3, 4}));
  expect_all_fail(3, broadcast({1, 2, 3, 5}), kInvalid,
                  "rank 2: the local tensor lies in the memory of 'embedding', which is filled "
                  "with other elements: tensor 'head'");
}

// The members of a mesh: one has other placements, another dtype, a plain tensor.
TEST(Broadcast, RanksOfAMeshThatDisagree) {
  const auto sharding = [](Placement placement) {
    return make_sharding({2}, {0, 1}, {placement}, {4});
  };
  const std::vector<Value> others{
      empty_dtensor(DType::kFloat32, sharding(Replicate{}), 1), float_tensor({4}, {0, 0, 0, 0}),
      empty_dtensor(DType::kFloat32, make_sharding({1}, {1}, {Shard{0}}, {4}), 1)};
  const char* texts[] = {"placements", "DTensor against Tensor", "mesh"};
  for (std::size_t i = 0; i < others.size(); ++i)
    expect_all_fail(
        2,
        [&](ProcessGroup& group) {
          Dict full;
          if (group.rank() == 0) full = make_dict({{"w", float_tensor({4}, {1, 2, 3, 4})}});
          Dict local =
              make_dict({{"w", group.rank() == 0
                                   ? Value(empty_dtensor(DType::kFloat32, sharding(Shard{0}), 0))
                                   : others[i]}});
          return broadcast_state_dict(full, local, group);
        },
        kInvalid, texts[i]);
}

TEST(Broadcast, MessagesThatRank0DoesNotSend) {
  Dict no_text;
  no_text.items.emplace_back(Value(true), Value(true));
  const std::vector<std::pair<Value, std::string>> cases{
      {None{}, "it is no dict"},
      {no_text, "a key is no text"},
      {make_dict({{"s", float_tensor({}, {1})}}), "elements are missing: tensor 's'"}};
  for (const auto& [full, text] : cases)
    expect_all_fail(
        2,
        [&full = full](ProcessGroup& group) -> Status {
          Dict local;
          if (group.rank() == 1) return broadcast_state_dict({}, local, group);
          MessageWriter message;
          message.put(encode_form(full));
          message.put("abc");  // elements
          SHARDKIT_TRY(exchange_messages(group, std::move(message).take()));
          return agree_on_status(group, {});
        },
        ErrorCode::kPeer, "rank 1: a message of rank 0 is damaged: " + text);
}

TEST(Broadcast, ARankThatIsLateOrGoneIsAnErrorOnAll) {
  const auto ranks = [](bool late) {
    return run_ranks(3,
                     [late](ProcessGroup& group) -> Status {
                       if (group.rank() == 2 && !late) return {};
                       if (group.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(1));
                       Dict full;
                       if (group.rank() == 0) full = make_dict({{"w", float_tensor({1}, {1})}});
                       Dict local = make_dict({{"w", meta_tensor(DType::kFloat32, {1})}});
                       const Status status = broadcast_state_dict(full, local, group);
                       EXPECT_TRUE(entry<Tensor>(local, "w").storage->is_meta());
                       return status;
                     },
                     {std::chrono::milliseconds(late ? 100 : 20000)});
  };
  for (const bool late : {false, true}) {
    const auto statuses = ranks(late);
    for (std::size_t rank = 0; rank < (late ? 3u : 2u); ++rank)
      EXPECT_THAT(statuses[rank], testing::Fails(ErrorCode::kPeer, "rank 2"));
  }
}

}  // namespace
}  // namespace shardkit
