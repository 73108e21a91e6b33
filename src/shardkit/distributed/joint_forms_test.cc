// What ranks must agree on, and the error that all get if they do not.
#include "shardkit/distributed/joint_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/collective/thread_group.h"
#include "shardkit/distributed/form_message.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::float_tensor;
using testing::IsOk;
using testing::make_sharding;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

DTensor row_shard(std::vector<std::int64_t> ranks = {0, 1}, Dims shape = {2}) {
  const auto n = static_cast<std::int64_t>(ranks.size());
  return {float_tensor({1}, {1}), make_sharding({n}, std::move(ranks), {Shard{0}}, shape)};
}

ShardedTensor sharded(std::int64_t rows) {
  ShardedTensor tensor;
  tensor.shape = {rows};
  tensor.shards = {{Box{{0}, {1}}, 0}, {Box{{1}, {rows - 1}}, 1}};
  return tensor;
}

using FormsOf = std::function<std::vector<TensorForm>(int rank)>;

std::vector<Status> exchange(int size, const FormsOf& forms) {
  return run_ranks(size, [&](ProcessGroup& group) -> Status {
    auto joint = JointForms::exchange(group, forms(group.rank()));
    if (!joint.ok()) return std::move(joint).error();
    return {};
  });
}

void expect_all_fail(const std::vector<Status>& statuses, ErrorCode code, const char* text) {
  for (const Status& status : statuses) EXPECT_THAT(status, Fails(code, text));
}

TEST(JointForms, EveryRankKnowsAllTensorsInOneOrder) {
  const auto statuses = run_ranks(3, [](ProcessGroup& group) -> Status {
    std::vector<TensorForm> mine{{{{"b", 0}}, row_shard()},
                                 {{{"a"}}, float_tensor({3}, {1, 2, 3})}};
    if (group.rank() == 1) std::swap(mine[0], mine[1]);
    if (group.rank() == 2) mine.erase(mine.begin());
    SHARDKIT_ASSIGN(const auto forms, JointForms::exchange(group, std::move(mine)));
    EXPECT_EQ(forms.paths(), (std::vector<StatePath>{{{"a"}}, {{"b", 0}}}));
    EXPECT_EQ(forms.find({{"b", 0}}, 2), nullptr);
    EXPECT_EQ(forms.find({{"c"}}, 0), nullptr);
    const Value* b = forms.find({{"b", 0}}, 1);
    if (!b) return Error(ErrorCode::kInternal, "no b");
    EXPECT_EQ(testing::tree_text(*b),
              "DTensor(float32[1]/[1]+0 of meta+4; [2] on cpu [2] 0 1: S(0))");
    return {};
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(JointForms, TheMembersOfAMeshMustHaveTheSame) {
  const auto differ = [](const Value& theirs) {
    return exchange(3, [&](int rank) -> std::vector<TensorForm> {
      if (rank == 2) return {};
      return {{{{"w"}}, rank == 0 ? Value(row_shard()) : theirs}};
    });
  };
  expect_all_fail(differ(float_tensor({2}, {1, 2})), kInvalid,
                  "ranks 0 and 1 disagree on it: DTensor against Tensor: tensor 'w'");
  expect_all_fail(differ(row_shard({0, 1}, {3})), kInvalid, "global shape [2] against [3]");
  expect_all_fail(differ(row_shard({1, 0})), kInvalid, "mesh cpu 2 of ranks 0-1 against cpu 2 of");
  DTensor other = row_shard();
  other.local = testing::make_tensor<std::int32_t>(DType::kInt32, {1}, {1});
  expect_all_fail(differ(other), kInvalid, "float32 against int32");
  other = {float_tensor({2}, {1, 2}), make_sharding({2}, {0, 1}, {Replicate{}}, {2})};
  expect_all_fail(differ(other), kInvalid, "placements [S(0)] against [R]");
}

TEST(JointForms, ATensorMustBeOnItsWholeMesh) {
  expect_all_fail(exchange(3,
                           [](int rank) -> std::vector<TensorForm> {
                             if (rank > 0) return {};
                             return {{{{"w"}}, row_shard()}};
                           }),
                  kInvalid, "rank 1 has no tensor there, which rank 0 shares with it: tensor 'w'");
  expect_all_fail(exchange(2,
                           [](int rank) -> std::vector<TensorForm> {
                             if (rank > 0) return {};
                             return {{{{"w"}}, sharded(3)}};
                           }),
                  kInvalid, "rank 1 has no tensor there");
  expect_all_fail(exchange(2,
                           [](int) -> std::vector<TensorForm> {
                             return {{{{"w"}}, row_shard({0, 1, 2})}};
                           }),
                  kInvalid, "a device mesh has rank 2, which is not in the process group");
  // The group of ranks 2 and 3 has itself ranks 0 and 1; the mesh names those of all ranks.
  expect_all_fail(exchange(2,
                           [](int) -> std::vector<TensorForm> {
                             return {{{{"w"}}, row_shard({2, 3})}};
                           }),
                  kInvalid, "a device mesh has rank 3, which is not in the process group");
  expect_all_fail(exchange(2,
                           [](int rank) -> std::vector<TensorForm> {
                             return {{{{"w"}}, sharded(3 + rank)}};
                           }),
                  kInvalid, "ranks 0 and 1 disagree on it: global shape [3] against [4]");
}

// Whichever rank differs, the error names it, and nobody's mesh or kind hides it.
TEST(JointForms, EveryMemberIsCompared) {
  const auto differ = [](int odd, const Value& common, const Value& other) {
    return exchange(4, [&](int rank) -> std::vector<TensorForm> {
      return {{{{"w"}}, rank == odd ? other : common}};
    });
  };
  const DTensor common = row_shard({2, 0, 1, 3}, {4});
  expect_all_fail(differ(3, common, row_shard({2, 0, 1, 3}, {5})), kInvalid,
                  "ranks 2 and 3 disagree on it: global shape [4] against [5]");
  expect_all_fail(differ(0, common, row_shard({2, 0, 1, 3}, {5})), kInvalid,
                  "ranks 0 and 2 disagree on it: global shape [5] against [4]");
  expect_all_fail(differ(2, common, row_shard({0, 2, 1, 3}, {4})), kInvalid,
                  "ranks 0 and 2 disagree on it: mesh");
  expect_all_fail(differ(2, common, row_shard({2}, {1})), kInvalid, "ranks 0 and 2 disagree");
  expect_all_fail(differ(1, common, row_shard({1}, {1})), kInvalid, "ranks 2 and 1 disagree");
  expect_all_fail(differ(2, common, sharded(4)), kInvalid, "ranks 0 and 2 disagree");
  expect_all_fail(differ(3, sharded(4), sharded(5)), kInvalid, "ranks 0 and 3 disagree");
  expect_all_fail(differ(0, sharded(4), common), kInvalid, "ranks 0 and 2 disagree");
  expect_all_fail(differ(0, sharded(4), row_shard({0}, {1})), kInvalid, "ranks 1 and 0 disagree");
}

// Pipeline stages, and submeshes of other ranks under the same name.
TEST(JointForms, RanksOutsideAMeshMayHaveWhatTheyLike) {
  const auto statuses = exchange(4, [](int rank) -> std::vector<TensorForm> {
    if (rank == 3) return {{{{"w"}}, float_tensor({5}, {1, 2, 3, 4, 5})}};
    if (rank == 2) return {{{{"w"}}, row_shard({2})}};
    return {{{{"w"}}, row_shard()}};
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(JointForms, ARanksOwnFaultIsEverybodysError) {
  const auto with = [](const Value& fault) {
    return exchange(2, [&](int rank) -> std::vector<TensorForm> {
      if (rank == 0) return {};
      return {{{{"w"}}, fault}};
    });
  };
  expect_all_fail(with(DTensor{float_tensor({1}, {1}), nullptr}), kInvalid,
                  "rank 1: a DTensor has no sharding or no mesh: tensor 'w'");
  const auto no_such_dim = make_sharding({2}, {0, 1}, {Shard{4}}, {2});
  expect_all_fail(with(DTensor{float_tensor({1}, {1}), no_such_dim}), ErrorCode::kCorrupt,
                  "rank 1: ");
  Tensor beyond = float_tensor({1}, {1});
  beyond.offset = 1;
  expect_all_fail(with(beyond), ErrorCode::kCorrupt, "rank 1: ");
  expect_all_fail(
      exchange(2,
               [](int) -> std::vector<TensorForm> {
                 return {{{{"1"}}, float_tensor({1}, {1})}, {{{"1"}}, float_tensor({1}, {1})}};
               }),
      kInvalid, "rank 0: two tensors have the same path: tensor '1'");
}

Value everything() {
  const auto sharding = std::make_shared<const Sharding>([] {
    Sharding s =
        *make_sharding({2, 2, 1, 1}, {3, 2, 1, 0},
                       {Shard{0}, Shard{0}, StridedShard{1, 2}, Partial{ReduceOp::kMax}}, {4, 6});
    s.shard_order = {{0, {1, 0}}, {1, {2}}};
    return s;
  }());
  return List{{None(), true, std::int64_t{-3}, BigInt{std::string("\0\1\2", 3)}, -0.5,
               std::string("text"), Bytes{std::string("\xff\0", 2)},
               Tuple{{Value(std::int64_t{1})}}, Set{{Value(std::string("a"))}},
               testing::make_dict({{"k", List{}}}), float_tensor({2, 1}, {1, 2}),
               DTensor{float_tensor({1, 6}, {1, 2, 3, 4, 5, 6}), sharding},
               DTensor{float_tensor({1}, {1}), sharding}, sharded(4),
               Opaque{"numpy.dtype", {Value(false)}}}};
}

TEST(JointForms, MessagesOfNoTensors) {
  const Value path = List{{Value(std::string("w"))}};
  const Value tensor = float_tensor({1}, {1});
  const auto with = [](const Value& entry) {
    return Tuple{{Value(std::string("options")), Value(List{{entry}})}};
  };
  const std::vector<Value> messages{None{},
                                    Tuple{{path}},
                                    Tuple{{path, path}},
                                    Tuple{{Value(std::string()), None{}}},
                                    with(None{}),
                                    with(Tuple{{path}}),
                                    with(Tuple{{path, None{}}}),
                                    with(Tuple{{tensor, tensor}}),
                                    with(Tuple{{Value(List{{tensor}}), tensor}})};
  for (const Value& message : messages) {
    const auto statuses = run_ranks(2, [&](ProcessGroup& group) -> Status {
      if (group.rank() == 0) {
        SHARDKIT_TRY(exchange_messages(group, encode_form(message)));
      } else {
        SHARDKIT_TRY(JointForms::exchange(group, std::vector<TensorForm>()));
      }
      return {};
    });
    EXPECT_THAT(statuses[0], IsOk());
    EXPECT_THAT(
        statuses[1],
        Fails(ErrorCode::kPeer, "a message of another rank is damaged: it is no list of tensors"));
  }
}

TEST(FormMessage, ATreeComesBackWithoutItsElements) {
  const Value tree = everything();
  const auto back = decode_form(encode_form(tree));
  ASSERT_THAT(back, IsOk());
  std::string expected = testing::tree_text(tree);
  for (auto at = expected.find("memory"); at != std::string::npos; at = expected.find("memory"))
    expected.replace(at, 6, "meta");
  EXPECT_EQ(testing::tree_text(*back), expected);
  EXPECT_EQ(encode_form(*back), encode_form(tree));
  const auto& items = back->get_if<List>()->items;
  EXPECT_EQ(items[11].get_if<DTensor>()->sharding, items[12].get_if<DTensor>()->sharding);
}

TEST(FormMessage, DamagedBytesAreAnErrorWhereverTheyAre) {
  const std::string whole = encode_form(everything());
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THAT(decode_form(std::string_view(whole).substr(0, length)),
                Fails(ErrorCode::kPeer, "a message of another rank is damaged"));
  EXPECT_THAT(decode_form(whole + "x"), Fails(ErrorCode::kPeer, "1 bytes too many"));
  std::size_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x80);
    if (const auto back = decode_form(damaged); !back.ok()) {
      EXPECT_EQ(back.error().code(), ErrorCode::kPeer) << at;
      ++refused;
    }
  }
  EXPECT_GT(refused, whole.size() / 4);
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += encode_form(List{{Value()}}).substr(0, 16);
  EXPECT_THAT(decode_form(deep), Fails(ErrorCode::kPeer, "it is too deep"));
}

/// Numbers and texts, one after another.
template <class... Parts>
std::string told(const Parts&... parts) {
  MessageWriter out;
  (out.put(parts), ...);
  return std::move(out).take();
}

TEST(FormMessage, TensorsThatCannotBe) {
  constexpr std::int64_t kTensor = 11, kDTensor = 12, kFloat32 = 1, kPartial = 3;
  EXPECT_THAT(decode_form(told(kTensor, kFloat32, 2, std::int64_t{1} << 62, 4)),
              Fails(ErrorCode::kPeer,
                    "a message of another rank is damaged: no tensor can have "
                    "the shape [4611686018427387904, 4]"));
  // Of shape [1]; its sharding is the first, as is the mesh: "cpu", [1], of rank 0, without names.
  const std::string dtensor = told(kDTensor, kFloat32, 1, 1, 0, 0, "cpu", 1, 1, 1, 0, 0, 1, 1);
  EXPECT_THAT(decode_form(dtensor + told(1, kPartial, 99, 0, 0)),
              Fails(ErrorCode::kPeer,
                    "a message of another rank is damaged: no reduction has the "
                    "number 99"));
  EXPECT_THAT(decode_form(dtensor + told(1, kPartial, 0, 0, 0)), IsOk());
}

}  // namespace
}  // namespace shardkit
