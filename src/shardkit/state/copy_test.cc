// Copying and offloading: what is written, what is shared, and that a refusal writes nothing.
#include "shardkit/state/copy.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "shardkit/state/compare.h"
#include "shardkit/state/memory.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::float_tensor;
using testing::IsOk;
using testing::list;
using testing::make_dict;
using testing::make_sharding;
using testing::meta_tensor;
using testing::number;
using testing::stored_floats;
using testing::tensor_in_file;

const Tensor& tensor_at(const Value& state, const char* key) {
  return *find(*state.get_if<Dict>(), key)->get_if<Tensor>();
}

DTensor dtensor(const std::vector<float>& values) {
  return {float_tensor({2}, values), make_sharding({2}, {0, 1}, {Shard{0}}, {4})};
}

ShardedTensor sharded(const std::vector<float>& values) {
  ShardedTensor made;
  made.shape = {4};
  ShardedTensor::LocalShard& shard = made.local_shards.emplace_back();
  shard.metadata.box = {{0}, {2}};
  shard.metadata.rank = 0;
  shard.tensor = float_tensor({2}, values);
  return made;
}

TEST(CopyStateDict, WritesInPlaceAndReturnsTheTargetsTensors) {
  const Value from = make_dict({{"w", float_tensor({2}, {1, 2})},
                                {"step", number(7)},
                                {"l", list({float_tensor({}, {3}), float_tensor({0}, {})})},
                                {"d", dtensor({4, 5})},
                                {"s", sharded({6, 7})}});
  // In another order, and with another plain value.
  const Value to = make_dict({{"s", sharded({0, 0})},
                              {"step", None()},
                              {"d", dtensor({0, 0})},
                              {"l", list({float_tensor({}, {0}), float_tensor({0}, {})})},
                              {"w", float_tensor({2}, {0, 0})}});
  const auto made = copy_state_dict(from, to);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(shardkit::testing::tree_text(*made), shardkit::testing::tree_text(from));
  EXPECT_FALSE(find_difference(*made, from).value());
  EXPECT_EQ(tensor_at(*made, "w").storage, tensor_at(to, "w").storage);
  EXPECT_THAT(stored_floats(tensor_at(to, "w")), ElementsAre(1, 2));
  EXPECT_TRUE(find(*to.get_if<Dict>(), "step")->get_if<None>()) << "plain values of `to` stay";
}

TEST(CopyStateDict, RespectsStridesOnBothSides) {
  Tensor from = float_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  from.strides = {1, 2};  // rows 1 3 5 and 2 4 6
  Tensor to = float_tensor({2, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0});
  to.strides = {4, 1};
  to.offset = 1;
  EXPECT_THAT(copy_state_dict(make_dict({{"w", from}}), make_dict({{"w", to}})), IsOk());
  EXPECT_THAT(stored_floats(to), ElementsAre(0, 1, 3, 5, 0, 2, 4, 6, 0));
}

TEST(CopyStateDict, ExpandedSourcesAreRepeated) {
  Tensor from = float_tensor({2, 2}, {1, 2});
  from.strides = {0, 1};
  const Tensor to = float_tensor({2, 2}, {0, 0, 0, 0});
  EXPECT_THAT(copy_state_dict(from, to), IsOk());
  EXPECT_THAT(stored_floats(to), ElementsAre(1, 2, 1, 2));
}

TEST(CopyStateDict, NothingIsWrittenUnlessEverythingFits) {
  const auto refused = [](const Value& from, const Value& to) {
    const Value first = float_tensor({2}, {1, 2});
    const Value target = float_tensor({2}, {8, 9});
    const auto made = copy_state_dict(make_dict({{"first", first}, {"x", from}}),
                                      make_dict({{"first", target}, {"x", to}}));
    EXPECT_THAT(stored_floats(*target.get_if<Tensor>()), ElementsAre(8, 9));
    return made;
  };
  const Tensor tensor = float_tensor({2}, {1, 2});
  const Tensor meta = meta_tensor(DType::kFloat32, {2});
  constexpr auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_THAT(refused(tensor, float_tensor({1}, {1})),
              Fails(kInvalid, "CompanionMismatch: shape [2] against [1]"));
  EXPECT_THAT(refused(tensor, float_tensor({1}, {1})), Fails(kInvalid, "x"));
  EXPECT_THAT(refused(tensor, None()), Fails(kInvalid, "CompanionMismatch: Tensor against None"));
  EXPECT_THAT(refused(number(1), list({})), Fails(kInvalid, "int against list"));
  EXPECT_THAT(refused(tensor, testing::make_tensor<std::int32_t>(DType::kInt32, {2}, {1, 2})),
              Fails(kInvalid, "float32 against int32"));
  EXPECT_THAT(refused(make_dict({{"k", tensor}}), make_dict({})),
              Fails(kInvalid, "the key \"k\" (str) is missing"));
  EXPECT_THAT(refused(dtensor({1, 2}), tensor), Fails(kInvalid, "DTensor against Tensor"));
  EXPECT_THAT(refused(tensor_in_file(), tensor), Fails(kInvalid, "model.pt"));
  EXPECT_THAT(refused(tensor, tensor_in_file()), Fails(kInvalid, "lies in a file"));
  EXPECT_THAT(refused(meta, tensor), Fails(kInvalid, "no bytes (meta)"));
  EXPECT_THAT(refused(tensor, meta), Fails(kInvalid, "no bytes (meta)"));
  EXPECT_THAT(refused(Opaque{"a.B", {}}, Opaque{"a.B", {}}), Fails(ErrorCode::kUnsupported, "a.B"));
  EXPECT_THAT(refused(Set(), Set()), Fails(ErrorCode::kUnsupported, "set"));
  Tensor expanded = float_tensor({2}, {1});
  expanded.strides = {0};
  EXPECT_THAT(refused(tensor, expanded), Fails(kInvalid, "share memory"));
  Tensor overlapping = float_tensor({2, 3}, {0, 0, 0, 0});
  overlapping.strides = {1, 1};
  EXPECT_THAT(refused(float_tensor({2, 3}, {1, 2, 3, 4, 5, 6}), overlapping),
              Fails(kInvalid, "share memory"));
  Tensor outside = tensor;
  outside.offset = 1;
  EXPECT_THAT(refused(outside, tensor), Fails(ErrorCode::kCorrupt, "leaves its storage"));
  EXPECT_THAT(refused(tensor, outside), Fails(ErrorCode::kCorrupt, "leaves its storage"));
}

TEST(CopyStateDict, NamesThePathOfAMismatch) {
  const auto made = copy_state_dict(make_dict({{"a", list({number(1), float_tensor({1}, {1})})}}),
                                    make_dict({{"a", list({number(1), number(2)})}}));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().tensor(), "a.1");
  EXPECT_EQ(made.error().what(), "CompanionMismatch: Tensor against int");
  ASSERT_TRUE(made.error().companion_mismatch());
  EXPECT_EQ(made.error().companion_mismatch()->path, made.error().tensor());
}

TEST(CopyStateDict, OntoItself) {
  Tensor tensor = float_tensor({3}, {1, 2, 3});
  EXPECT_THAT(copy_state_dict(tensor, tensor), IsOk());
  EXPECT_THAT(stored_floats(tensor), ElementsAre(1, 2, 3));
  Tensor head = tensor;
  head.shape = {2};
  Tensor tail = head;
  tail.offset = 1;
  EXPECT_THAT(copy_state_dict(head, tail), Fails(ErrorCode::kInvalidArgument, "overlaps"));
  EXPECT_THAT(copy_state_dict(tail, head), Fails(ErrorCode::kInvalidArgument, "overlaps"));
  // One behind the other is no overlap.
  head.shape = {1};
  tail.shape = {1};
  EXPECT_THAT(copy_state_dict(tail, head), IsOk());
  EXPECT_THAT(stored_floats(tensor), ElementsAre(2, 2, 3));
}

TEST(CopyStateDict, NothingIsWrittenOverATensorThatIsCopiedOntoItself) {
  const Tensor a = float_tensor({2}, {1, 2});
  const Tensor b = float_tensor({2}, {3, 4});
  for (const auto& made :
       {copy_state_dict(make_dict({{"a", a}, {"b", b}}), make_dict({{"a", a}, {"b", a}})),
        copy_state_dict(make_dict({{"b", b}, {"a", a}}), make_dict({{"b", a}, {"a", a}}))}) {
    ASSERT_THAT(made, Fails(ErrorCode::kInvalidArgument, "overlaps the one to be copied"));
    EXPECT_EQ(made.error().tensor(), "a");
    EXPECT_THAT(stored_floats(a), ElementsAre(1, 2));
  }
  EXPECT_THAT(copy_state_dict(make_dict({{"a", a}, {"b", a}}), make_dict({{"a", a}, {"b", a}})),
              IsOk());
}

TEST(CopyStateDict, TensorsThatSwapPlacesAreRefused) {
  const Tensor a = float_tensor({2}, {1, 2});
  const Tensor b = float_tensor({2}, {3, 4});
  const auto made =
      copy_state_dict(make_dict({{"a", a}, {"b", b}}), make_dict({{"a", b}, {"b", a}}));
  EXPECT_THAT(made, Fails(ErrorCode::kInvalidArgument, "overlaps the one to be copied"));
  EXPECT_EQ(made.error().tensor(), "a");
  EXPECT_THAT(stored_floats(a), ElementsAre(1, 2));
  EXPECT_THAT(stored_floats(b), ElementsAre(3, 4));
}

TEST(CopyStateDict, RefillsWhatCreateCpuStateDictMade) {
  Tensor transposed = float_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  transposed.strides = {1, 2};
  const Value state = make_dict({{"t", transposed},
                                 {"d", dtensor({1, 2})},
                                 {"n", number(1)},
                                 {"s", sharded({3, 4})},
                                 {"z", float_tensor({}, {5})}});
  const Value fresh = create_cpu_state_dict(state).value();
  EXPECT_FALSE(check_state_dict_similarity(state, fresh));
  EXPECT_TRUE(find_difference(state, fresh).value()) << "zeros";
  EXPECT_THAT(copy_state_dict(state, fresh), IsOk());
  EXPECT_FALSE(find_difference(state, fresh).value());
}

TEST(OffloadStateDict, SharesAndSaysSo) {
  const Value state = make_dict({{"n", number(1)},
                                 {"w", float_tensor({2}, {1, 2})},
                                 {"in", list({dtensor({1, 2}), Tuple{{sharded({3, 4})}}})}});
  const auto made = offload_state_dict_to_cpu(state);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(tensor_at(made->state, "w").storage, tensor_at(state, "w").storage);
  EXPECT_FALSE(find_difference(made->state, state).value());
  std::vector<std::string> shared;
  for (const StatePath& path : made->shared) shared.push_back(to_string(path));
  EXPECT_THAT(shared, ElementsAre("w", "in.0", "in.1.0"));
}

TEST(OffloadStateDict, RefusesWhatHasNoBytes) {
  const Tensor meta = meta_tensor(DType::kFloat32, {2});
  EXPECT_THAT(offload_state_dict_to_cpu(make_dict({{"a", list({meta})}})),
              Fails(ErrorCode::kInvalidArgument, "no bytes (meta)"));
  EXPECT_THAT(offload_state_dict_to_cpu(make_dict({{"a", list({tensor_in_file()})}})),
              Fails(ErrorCode::kInvalidArgument, "a.0"));
  EXPECT_THAT(offload_state_dict_to_cpu(make_dict({{"a", Opaque{"a.B", {}}}})),
              Fails(ErrorCode::kUnsupported, "a.B"));
}

}  // namespace
}  // namespace shardkit
