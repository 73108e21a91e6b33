// The hub: which function gets what, and who gets the result. tests/interop holds it against
// PyTorch.
#include "shardkit/distributed/iterate_state_dict.h"

#include <gtest/gtest.h>

#include "shardkit/collective/thread_group.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::float_tensor;
using testing::IsOk;
using testing::make_dict;
using testing::make_sharding;
using testing::tree_text;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

const TensorFunctions kIdentity{identity_func<ShardedTensor>, identity_func<DTensor>,
                                identity_func<Tensor>};

DTensor row_shard() {
  return {float_tensor({1}, {1}), make_sharding({2}, {0, 1}, {Shard{0}}, {2})};
}

float first_float(const Value& tensor) {
  const Tensor& view = *tensor.get_if<Tensor>();
  return reinterpret_cast<const float*>(view.storage->memory()->data)[view.offset];
}

TEST(IterateStateDict, EachKindOfTensorMeetsItsFunctionAtItsPath) {
  const auto told = [](const char* kind) {
    return [kind](const auto&, const IterateContext& context) -> Result<Value> {
      return Value(kind + std::string(" at ") + to_string(context.path) + " on " + context.device);
    };
  };
  const Value state = make_dict({{"a", List{{row_shard(), Tuple{{float_tensor({1}, {1})}}}}},
                                 {"b", ShardedTensor()},
                                 {"c", std::int64_t{5}}});
  const auto made = iterate_state_dict(state, {told("sharded"), told("dtensor"), told("tensor")});
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(tree_text(*made),
            "{'a': ['dtensor at a.0 on cpu', ('tensor at a.1.0 on cpu')], "
            "'b': 'sharded at b on cpu', 'c': 5}");
}

TEST(IterateStateDict, IdentitySharesTheTensors) {
  const Tensor tensor = float_tensor({1}, {1});
  const auto made = iterate_state_dict(make_dict({{"t", tensor}}), kIdentity);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(find(*made->get_if<Dict>(), "t")->get_if<Tensor>()->storage, tensor.storage);
}

TEST(IterateStateDict, OnlyTheRanksAskedForGetTheResult) {
  const auto statuses = run_ranks(3, [](ProcessGroup& group) -> Status {
    int calls = 0;
    TensorFunctions functions = kIdentity;
    functions.tensor = [&](const Tensor& tensor, const IterateContext& context) -> Result<Value> {
      EXPECT_EQ(context.group, &group);
      ++calls;
      return Value(tensor);
    };
    IterateOptions options;
    options.group = &group;
    options.ranks_only = {0, 2};
    const Value inner = float_tensor({1}, {1});
    SHARDKIT_ASSIGN(const Value of_dict,
                    iterate_state_dict(make_dict({{"t", inner}}), functions, options));
    SHARDKIT_ASSIGN(const Value of_list, iterate_state_dict(List{{inner}}, functions, options));
    const bool gets = group.rank() != 1;
    EXPECT_EQ(of_dict.get_if<Dict>()->items.size(), gets ? 1U : 0U);
    EXPECT_EQ(kind_name(of_list), gets ? "list" : "None");
    EXPECT_EQ(calls, 2);
    return {};
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(IterateStateDict, ResultsAreCopiedIntoTheCompanion) {
  TensorFunctions functions = kIdentity;
  functions.dtensor = [](const DTensor&, const IterateContext&) -> Result<Value> {
    return Value(float_tensor({1}, {7}));
  };
  const Tensor target = float_tensor({1}, {0});
  const Value companion = make_dict({{"w", target}, {"n", None()}});
  IterateOptions options;
  options.companion = &companion;
  options.cpu_offload = true;
  const Value state = make_dict({{"w", row_shard()}, {"n", std::int64_t{1}}});
  const auto made = iterate_state_dict(state, functions, options);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(find(*made->get_if<Dict>(), "w")->get_if<Tensor>()->storage, target.storage);
  EXPECT_EQ(first_float(target), 7);
  EXPECT_EQ(tree_text(*find(*made->get_if<Dict>(), "n")), "1");
}

TEST(IterateStateDict, ACompanionOfAnotherStructureIsLeftAlone) {
  const Tensor target = float_tensor({1}, {0});
  const Value state =
      make_dict({{"a", float_tensor({1}, {5})}, {"b", List{{float_tensor({1}, {6})}}}});
  const Value companion = make_dict({{"a", target}, {"b", List{{float_tensor({2}, {0, 0})}}}});
  IterateOptions options;
  options.companion = &companion;
  const auto made = iterate_state_dict(state, kIdentity, options);
  EXPECT_THAT(made, Fails(kInvalid, "CompanionMismatch: shape [1] against [2]: tensor 'b.0'"));
  ASSERT_TRUE(made.error().companion_mismatch());
  EXPECT_EQ(made.error().companion_mismatch()->path, "b.0");
  EXPECT_EQ(first_float(target), 0);
}

TEST(IterateStateDict, TypeCheckRefusesWhatItDoesNotKnow) {
  const Tensor inside = float_tensor({1}, {4});
  const Value state = make_dict(
      {{"o", Opaque{"collections.Counter", {inside}}}, {"s", Set{{Value(std::int64_t{1})}}}});
  EXPECT_THAT(iterate_state_dict(state, kIdentity),
              Fails(ErrorCode::kUnsupported,
                    "a value of this kind is not copied: tensor 'o', found collections.Counter"));
  IterateOptions options;
  options.type_check = false;
  for (const Value* companion : {static_cast<const Value*>(nullptr), &state}) {
    options.companion = companion;
    const auto made = iterate_state_dict(state, kIdentity, options);
    ASSERT_THAT(made, IsOk());
    EXPECT_EQ(tree_text(*made), tree_text(state));
    const auto* object = find(*made->get_if<Dict>(), "o")->get_if<Opaque>();
    EXPECT_NE(object->state[0].get_if<Tensor>()->storage, inside.storage);
    EXPECT_EQ(first_float(object->state[0]), 4);
  }
}

TEST(IterateStateDict, WrongCalls) {
  const Value state = make_dict({});
  IterateOptions options;
  options.device = "cuda";
  EXPECT_THAT(iterate_state_dict(state, kIdentity, options),
              Fails(ErrorCode::kUnsupported, "no other device is known: expected cpu, found cuda"));
  options = {};
  options.ranks_only = {0};
  EXPECT_THAT(iterate_state_dict(state, kIdentity, options),
              Fails(kInvalid, "ranks_only needs a process group"));
  const auto groups = make_thread_groups(2);
  options.group = groups[0].get();
  options.ranks_only = {0, 2};
  EXPECT_THAT(iterate_state_dict(state, kIdentity, options),
              Fails(kInvalid, "a rank outside the group: expected ranks below 2, found 2"));
  options.ranks_only = {-1};
  EXPECT_THAT(iterate_state_dict(state, kIdentity, options), Fails(kInvalid, "found -1"));
}

TEST(IterateStateDict, OffloadNeedsMemory) {
  Tensor meta = float_tensor({1}, {1});
  meta.storage = std::make_shared<const Storage>(NoBytes(), 4);
  const Value state = make_dict({{"t", meta}});
  EXPECT_THAT(iterate_state_dict(state, kIdentity), IsOk());
  IterateOptions options;
  options.cpu_offload = true;
  EXPECT_THAT(iterate_state_dict(state, kIdentity, options), Fails(kInvalid, "(meta): tensor 't'"));
}

TEST(IterateStateDict, AFunctionsErrorGetsThePath) {
  TensorFunctions functions = kIdentity;
  functions.tensor = [](const Tensor&, const IterateContext&) -> Result<Value> {
    return Error(ErrorCode::kPeer, "gone");
  };
  EXPECT_THAT(iterate_state_dict(make_dict({{"a", Tuple{{float_tensor({1}, {1})}}}}), functions),
              Fails(ErrorCode::kPeer, "gone: tensor 'a.0'"));
}

}  // namespace
}  // namespace shardkit
