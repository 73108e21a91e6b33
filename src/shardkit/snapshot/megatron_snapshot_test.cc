// Whole copies of plain tensors, chunk by chunk.
#include "shardkit/snapshot/megatron_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::float_tensor;
using testing::IsOk;

Dict chunk(const std::string& name, float value) {
  return testing::make_dict({{name, float_tensor({2}, {value, value})}});
}

std::byte* first_byte(const Dict& model) {
  return model.items[0].second.get_if<Tensor>()->storage->memory()->data;
}

float first(const Dict& model) {
  float value = 0;
  std::memcpy(&value, first_byte(model), sizeof value);
  return value;
}

void set_first(const Dict& model, float value) {
  std::memcpy(first_byte(model), &value, sizeof value);
}

TEST(MegatronSnapshot, CopiesAndPutsBackEachChunk) {
  const std::vector<Dict> models{chunk("a", 1), chunk("b", 2), chunk("c", 3)};
  const auto saved = copy_megatron_model_to_cpu(models);
  ASSERT_THAT(saved, IsOk());
  ASSERT_EQ(saved->size(), 3u);
  EXPECT_EQ((*saved)[1].entries[0].spec, nullptr);
  for (const Dict& model : models) set_first(model, -1);
  // The last chunk has no snapshot, and the second has another name.
  std::vector<Snapshot> part{(*saved)[0], (*saved)[1]};
  part[1].entries[0].name = "other";
  const auto reports = restore_megatron_model_from_cpu(models, part);
  ASSERT_THAT(reports, IsOk());
  EXPECT_EQ(first(models[0]), 1);
  EXPECT_EQ(first(models[1]), -1);
  EXPECT_EQ(first(models[2]), -1);
  EXPECT_THAT((*reports)[0].skipped, ElementsAre());
  EXPECT_THAT((*reports)[1].skipped, ElementsAre("b"));
  EXPECT_THAT((*reports)[1].unused, ElementsAre("other"));
  EXPECT_THAT((*reports)[2].skipped, ElementsAre("c"));
}

TEST(MegatronSnapshot, AllChunksAreCheckedFirst) {
  const std::vector<Dict> models{chunk("a", 1), chunk("b", 2)};
  auto saved = copy_megatron_model_to_cpu(models).value();
  set_first(models[0], -1);
  saved[1].entries[0].tensor = float_tensor({3}, {1, 2, 3});
  EXPECT_THAT(restore_megatron_model_from_cpu(models, saved),
              Fails(ErrorCode::kInvalidArgument, "local shape [3] against [2]"));
  EXPECT_EQ(first(models[0]), -1);
  EXPECT_THAT(restore_megatron_model_from_cpu(std::vector<Dict>(1), saved),
              Fails(ErrorCode::kInvalidArgument, "more snapshots than chunks"));
}

TEST(MegatronSnapshot, ATensorInAnotherChunksSnapshotIsRefused) {
  std::vector<Dict> models{chunk("a", 1), chunk("b", 2)};
  const auto saved = copy_megatron_model_to_cpu(models).value();
  // The second chunk's snapshot would be read after the first chunk was written over it.
  models[0].items[0].second = saved[1].entries[0].tensor;
  set_first(models[1], -1);
  EXPECT_THAT(restore_megatron_model_from_cpu(models, saved),
              Fails(ErrorCode::kInvalidArgument, "lies in the snapshot's memory"));
  EXPECT_EQ(first(models[0]), 2);
  EXPECT_EQ(first(models[1]), -1);
}

TEST(MegatronSnapshot, DTensorsAreRefused) {
  const DTensor dtensor{float_tensor({2}, {1, 2}),
                        testing::make_sharding({2}, {0, 1}, {Shard{0}}, {4})};
  const std::vector<Dict> models{testing::make_dict({{"w", dtensor}})};
  EXPECT_THAT(copy_megatron_model_to_cpu(models),
              Fails(ErrorCode::kInvalidArgument, "a DTensor is no unsharded state"));
  EXPECT_THAT(restore_megatron_model_from_cpu(models, {}),
              Fails(ErrorCode::kInvalidArgument, "a DTensor is no unsharded state"));
}

}  // namespace
}  // namespace shardkit
