// Fresh tensors and trees of them, against what PyTorch's _create_cpu_state_dict made.
#include "shardkit/state/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using testing::all_zero;
using testing::Fails;
using testing::float_tensor;
using testing::make_tensor;
using testing::meta_tensor;

Tensor with_strides(Tensor tensor, Dims strides, std::int64_t offset = 0) {
  tensor.strides = std::move(strides);
  tensor.offset = offset;
  return tensor;
}

// CPU_TENSORS of testdata/generate.py.
std::map<std::string, Tensor> cpu_tensors() {
  return {
      {"0d", make_tensor<std::int64_t>(DType::kInt64, {}, {3})},
      {"0d_bool", make_tensor<char>(DType::kBool, {}, {1})},
      {"empty", make_tensor<char>(DType::kFloat16, {2, 0, 4}, {})},
      {"empty_0", float_tensor({0}, {})},
      {"transposed", with_strides(float_tensor({3, 2}, {0, 1, 2, 3, 4, 5}), {1, 3})},
      {"expanded", with_strides(float_tensor({2, 3}, {0, 1, 2}), {0, 1})},
      {"strided", with_strides(float_tensor({4}, {0, 1, 2, 3, 4, 5, 6, 7}), {2}, 1)},
      {"meta", meta_tensor(DType::kBFloat16, {2, 3})},
  };
}

TEST(CreateCpuStateDict, MakesWhatPyTorchMakes) {
  std::istringstream lines(
      testing::read_file(testing::source_path("src/shardkit/state/testdata/cpu_state_dict.txt")));
  std::size_t shapes = 0;
  std::size_t zeros = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find(' '));
    const Tensor source = cpu_tensors().at(name);
    const Value made = create_cpu_state_dict(testing::make_dict({{"x", source}})).value();
    const Tensor& tensor = *find(*made.get_if<Dict>(), "x")->get_if<Tensor>();
    EXPECT_TRUE(all_zero(tensor)) << name;
    EXPECT_NE(tensor.storage, source.storage) << name;
    const std::string rest = line.substr(name.size() + 1);
    if (rest == "zero True") {
      ++zeros;
      continue;
    }
    ++shapes;
    EXPECT_EQ(std::string(torch_name(source.dtype)) + to_string(source.shape) + " of " +
                  testing::tensor_text(tensor),
              rest)
        << name;
  }
  EXPECT_EQ(shapes, cpu_tensors().size());
  EXPECT_EQ(zeros, 3u);
}

TEST(CreateCpuStateDict, DistributedTensorsKeepTheirSpec) {
  const DTensor dtensor{float_tensor({2}, {1, 2}),
                        testing::make_sharding({2}, {0, 1}, {Shard{0}}, {4})};
  const DTensor scalar{float_tensor({}, {1}), testing::make_sharding({1}, {0}, {Replicate{}}, {})};
  ShardedTensor sharded;
  sharded.shape = {4};
  ShardedTensor::LocalShard& shard = sharded.local_shards.emplace_back();
  shard.metadata.box = {{0}, {2}};
  shard.metadata.rank = 0;
  shard.tensor = float_tensor({2}, {1, 2});
  sharded.shards = {shard.metadata};
  const Value state = List{{dtensor, scalar, sharded}};
  const Value made = create_cpu_state_dict(state).value();
  EXPECT_EQ(testing::tree_text(made), testing::tree_text(state));
  const auto& items = made.get_if<List>()->items;
  EXPECT_EQ(items[0].get_if<DTensor>()->sharding, dtensor.sharding);
  EXPECT_TRUE(all_zero(items[0].get_if<DTensor>()->local));
  EXPECT_TRUE(all_zero(items[1].get_if<DTensor>()->local));
  EXPECT_TRUE(all_zero(items[2].get_if<ShardedTensor>()->local_shards[0].tensor));
  EXPECT_FALSE(all_zero(dtensor.local)) << "the original is left alone";
}

TEST(CreateCpuStateDict, ObjectsAreCopiedWithTheirTensors) {
  const Tensor inner = with_strides(float_tensor({3, 2}, {0, 1, 2, 3, 4, 5}), {1, 3});
  const Value state = Tuple{{Opaque{"a.B", {inner, std::int64_t(7)}}, Set{{std::string("x")}},
                             float_tensor({1}, {1}), None()}};
  const Value made = create_cpu_state_dict(state).value();
  const auto& items = made.get_if<Tuple>()->items;
  const auto& object = *items[0].get_if<Opaque>();
  EXPECT_EQ(object.class_name, "a.B");
  const Tensor& copy = *object.state[0].get_if<Tensor>();
  EXPECT_NE(copy.storage, inner.storage);
  std::vector<float> values(6);
  std::memcpy(values.data(), copy.storage->memory()->data, 24);
  EXPECT_EQ(values, (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(*object.state[1].get_if<std::int64_t>(), 7);
  EXPECT_EQ(testing::tree_text(items[1]), "set('x')");
  EXPECT_TRUE(all_zero(*items[2].get_if<Tensor>())) << "only what stands below an object is copied";
}

TEST(CreateCpuStateDict, NamesWhatItCannotMake) {
  Tensor in_file = float_tensor({2}, {1, 2});
  in_file.storage = std::make_shared<const Storage>(
      FileRange{std::make_shared<const std::string>("model.pt"), 64}, 8);
  const Value state = testing::make_dict({{"a", List{{None(), in_file}}}});
  EXPECT_THAT(create_cpu_state_dict(state), Fails(ErrorCode::kInvalidArgument, "model.pt"));
  EXPECT_THAT(create_cpu_state_dict(state), Fails(ErrorCode::kInvalidArgument, "a.1"));
  EXPECT_THAT(create_cpu_state_dict(Opaque{"a.B", {meta_tensor(DType::kFloat32, {1})}}),
              Fails(ErrorCode::kInvalidArgument, "no bytes (meta)"));
}

TEST(CreateCpuStateDict, SaysWhenThereIsNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers' calloc() ends the process instead";
#else
  EXPECT_THAT(create_cpu_state_dict(meta_tensor(DType::kFloat32, {INT64_MAX / 8})),
              Fails(ErrorCode::kLimit, "no memory"));
#endif
}

TEST(MakeCpuTensor, AlignedAndChecked) {
  for (const std::int64_t size : {0, 1, 3, 100000}) {
    const Tensor tensor = make_cpu_tensor(DType::kInt8, {size}).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.storage->memory()->data) % 64, 0u);
    EXPECT_EQ(tensor.storage->bytes(), static_cast<std::uint64_t>(size));
    EXPECT_THAT(check_view(tensor), testing::IsOk());
  }
  EXPECT_THAT(make_cpu_tensor(DType::kInt8, {-1}), Fails(ErrorCode::kInvalidArgument, "[-1]"));
  EXPECT_THAT(make_cpu_tensor(DType::kInt64, {INT64_MAX / 4}),
              Fails(ErrorCode::kInvalidArgument, "no tensor can have this shape"));
  EXPECT_THAT(make_cpu_tensor(DType::kInt8, {INT64_MAX}),
              Fails(ErrorCode::kInvalidArgument, "no tensor can have this shape"));
}

}  // namespace
}  // namespace shardkit
