#include "shardkit/merge/device_mesh_info.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::IsOk;

/// A merger of a checkpoint that real PyTorch wrote.
FSDPModelMerger merger_of(const std::string& fixture) {
  MergeOptions options;
  options.local_dir = testing::source_path("tests/fixtures/" + fixture);
  return {posix_file_system(), options};
}

TEST(ExtractDeviceMeshInfo, EachTensorTellsItsOwnMesh) {
  FSDPModelMerger merger = merger_of("torch-2.13.0/fsdp_tp_fp32_w4");
  const auto catalog = merger.load_and_merge_state_dicts();
  ASSERT_THAT(catalog, IsOk());
  const std::vector<DeviceMeshInfo> infos = extract_device_mesh_info(**catalog);
  std::size_t tensors = 0;
  std::vector<std::string> texts;
  for (const DeviceMeshInfo& info : infos) {
    tensors += info.tensors.size();
    texts.push_back(to_string(info));
  }
  EXPECT_EQ(tensors, 27u) << "each tensor once";
  // Attention and MLP are cut for tensor parallelism too, by rows or by columns; norms, embedding
  // and head are on the submesh of FSDP alone.
  EXPECT_THAT(texts, ElementsAre("7 tensors as [S(0)] on 2 (fsdp) of ranks 0,2: 2 shards",
                                 "16 tensors as [_S(0, 2), S(0)] on 2x2 (fsdp, tp) of ranks 0-3: "
                                 "4 shards",
                                 "4 tensors as [S(0), S(1)] on 2x2 (fsdp, tp) of ranks 0-3: "
                                 "4 shards"));
  EXPECT_EQ(infos[0].tensors[0], "model.embed_tokens.weight");
  EXPECT_THAT(infos[1].mesh->dim_names(), ElementsAre("fsdp", "tp"));
}

TEST(ExtractDeviceMeshInfo, OfOneRankAndOfNoMesh) {
  FSDPModelMerger hsdp = merger_of("torch-2.13.0/hsdp_bf16_w4");
  const auto infos = extract_device_mesh_info(hsdp.load_rank_zero_state_dict().value());
  ASSERT_THAT(infos, IsOk());
  ASSERT_EQ(infos->size(), 1u);
  EXPECT_EQ((*infos)[0].mesh->ranks(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_THAT((*infos)[0].mesh->dim_names(), ElementsAre("ddp", "fsdp"));
  FSDPModelMerger plain = merger_of("torch-2.13.0/plain_fp32_w2");
  EXPECT_TRUE(extract_device_mesh_info(*plain.load_and_merge_state_dicts().value()).empty());
  EXPECT_THAT(extract_device_mesh_info(Value(List{})),
              Fails(ErrorCode::kUnsupported, "the state dict is not a dict: found list"));
  EXPECT_THAT(extract_device_mesh_info(Value(Dict{{{Value(std::int64_t{1}), Value()}}})),
              Fails(ErrorCode::kUnsupported, "a key of the state dict is not a string: found int"));
}

TEST(CalculateShardConfiguration, CountsShardsReplicasAndAddends) {
  FSDPModelMerger merger = merger_of("torch-2.13.0/hsdp_tp_fp32_w8");
  std::int64_t most_shards = 0;
  for (const DeviceMeshInfo& info :
       extract_device_mesh_info(*merger.load_and_merge_state_dicts().value())) {
    const ShardConfiguration configuration = calculate_shard_configuration(info);
    EXPECT_EQ(configuration.total_shards * configuration.replicas,
              static_cast<std::int64_t>(info.mesh->ranks().size()));
    EXPECT_EQ(configuration.replicas, 2) << to_string(info);
    EXPECT_EQ(configuration.mesh_shape, info.mesh->shape());
    most_shards = std::max(most_shards, configuration.total_shards);
  }
  EXPECT_EQ(most_shards, 4);

  const auto mesh = testing::make_sharding(
      {2, 3, 4},
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23},
      {Replicate{}, Partial{}, StridedShard{0, 2}}, {8});
  const DeviceMeshInfo info{mesh->mesh, mesh->placements, {"w"}};
  const ShardConfiguration configuration = calculate_shard_configuration(info);
  EXPECT_EQ(configuration.total_shards, 4);
  EXPECT_EQ(configuration.replicas, 2);
  EXPECT_EQ(configuration.addends, 3);
  EXPECT_EQ(to_string(info),
            "1 tensor as [R, P(sum), _S(0, 2)] on 2x3x4 of ranks 0-23: 4 shards, 2 replicas, "
            "3 addends");
}

}  // namespace
}  // namespace shardkit
