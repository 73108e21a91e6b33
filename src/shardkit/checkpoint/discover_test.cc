#include "shardkit/checkpoint/discover.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::TempDir;
using testing::write_file;

class DiscoverTest : public ::testing::Test {
 protected:
  void shards(const std::string& folder, int world_size, std::initializer_list<int> ranks) {
    for (const int rank : ranks)
      write_file(dir_ / (folder + "/model_world_size_" + std::to_string(world_size) + "_rank_" +
                         std::to_string(rank) + ".pt"),
                 "x");
  }
  void config(const std::string& folder, const std::string& text) {
    write_file(dir_ / (folder + "/fsdp_config.json"), text);
  }
  Result<CheckpointFolder> discover(const std::string& below) {
    return discover_checkpoint(posix_file_system(), dir_ / below);
  }

  TempDir dir_;
};

TEST_F(DiscoverTest, FromEveryLevelOfARun) {
  shards("run/global_step_10/actor", 2, {0, 1});
  config("run/global_step_10/actor", R"({"FSDP_version": 2, "world_size": 2})");
  write_file(dir_ / "run/global_step_10/actor/huggingface/config.json", "{}");
  shards("run/global_step_5/actor", 2, {0, 1});
  write_file(dir_ / "run/latest_checkpointed_iteration.txt", "10");
  for (const char* start : {"run", "run/global_step_10", "run/global_step_10/actor"}) {
    const auto found = discover(start);
    ASSERT_THAT(found, IsOk());
    EXPECT_EQ(found->path, dir_ / "run/global_step_10/actor");
    EXPECT_EQ(found->world_size, 2);
    EXPECT_EQ(found->fsdp_version, 2);
    EXPECT_EQ(found->hf_folder, dir_ / "run/global_step_10/actor/huggingface");
    ASSERT_EQ(found->rank_files.size(), 2u);
    EXPECT_EQ(found->rank_files[1], dir_ / "run/global_step_10/actor/model_world_size_2_rank_1.pt");
    EXPECT_TRUE(found->notes.empty());
  }
}

TEST_F(DiscoverTest, SeveralChoicesAreListed) {
  shards("run/global_step_10/actor", 1, {0});
  shards("run/global_step_10/critic", 1, {0});
  EXPECT_THAT(discover("run/global_step_10"), Fails(ErrorCode::kInvalidArgument, "actor, "));
  EXPECT_THAT(discover("run"), Fails(ErrorCode::kInvalidArgument, "critic"));
}

TEST_F(DiscoverTest, TheLatestStepMustBeThereAndBeANumber) {
  shards("run/global_step_10/actor", 1, {0});
  write_file(dir_ / "run/latest_checkpointed_iteration.txt", "20\n");
  EXPECT_THAT(discover("run"), Fails(ErrorCode::kNotFound, "global_step_20"));
  write_file(dir_ / "run/latest_checkpointed_iteration.txt", "10 or so");
  EXPECT_THAT(discover("run"), Fails(ErrorCode::kCorrupt, "number of a step"));
}

TEST_F(DiscoverTest, WithoutConfigTheFileNamesTell) {
  shards("c", 4, {0, 1, 2, 3});
  const auto found = discover("c");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->world_size, 4);
  ASSERT_EQ(found->notes.size(), 1u);
  EXPECT_NE(found->notes[0].find("world size 4 taken from the file names"), std::string::npos);
}

TEST_F(DiscoverTest, MissingRanksAreAllListed) {
  shards("c", 16, {8, 9, 10, 11, 13, 15});
  EXPECT_THAT(discover("c"),
              Fails(ErrorCode::kIncomplete, "ranks 8-11, 13, 15; missing: 0-7, 12, 14"));
}

TEST_F(DiscoverTest, TheConfigDecidesBetweenWorldSizes) {
  shards("c", 2, {0, 1});
  shards("c", 4, {0, 1, 2, 3});
  EXPECT_THAT(discover("c"),
              Fails(ErrorCode::kIncomplete, "world size 2 with ranks 0-1; world size 4"));
  config("c", R"({"world_size": 2})");
  const auto found = discover("c");
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->world_size, 2);
  EXPECT_NE(found->notes.at(0).find("left aside: 4 files of world size 4, model_world_size_4_rank_R"
                                    ".pt of ranks 0-3"),
            std::string::npos);
}

TEST_F(DiscoverTest, AConfigThatFitsNoFilesIsRefused) {
  shards("c", 4, {0, 1, 2, 3});
  config("c", R"({"world_size": 8})");
  EXPECT_THAT(discover("c"),
              Fails(ErrorCode::kIncomplete, "expected files of world size 8, found world size 4"));
  config("c", R"({"world_size": "4"})");
  EXPECT_THAT(discover("c"), Fails(ErrorCode::kCorrupt, "fsdp_config.json"));
  config("c", R"({"world_size": 4, "world_size": 4})");
  EXPECT_THAT(discover("c"), Fails(ErrorCode::kCorrupt, "world_size"));
}

TEST_F(DiscoverTest, DoubledAndImpossibleRanks) {
  shards("c", 2, {0, 1});
  write_file(dir_ / "c/model_world_size_2_rank_01.pt", "x");
  EXPECT_THAT(discover("c"), Fails(ErrorCode::kIncomplete, "rank 1 has several files"));
  shards("d", 2, {0, 1, 2});
  EXPECT_THAT(discover("d"), Fails(ErrorCode::kIncomplete, "rank is not below"));
  write_file(dir_ / "e/model_world_size_99999999999_rank_0.pt", "x");
  EXPECT_THAT(discover("e"), Fails(ErrorCode::kLimit, "99999999999"));
}

TEST_F(DiscoverTest, FoldersThatHostsKeptAreJoined) {
  shards("a/actor", 4, {0, 1});
  shards("b/actor", 4, {1, 2, 3});
  write_file(dir_ / "b/actor/huggingface/config.json", "{}");
  config("b/actor", R"({"FSDP_version": 2, "world_size": 4})");
  const auto join = [this](std::vector<std::string> folders,
                           MissingRanks missing = MissingRanks::kRefused) {
    for (std::string& folder : folders) folder = dir_ / folder;
    return discover_checkpoint(posix_file_system(), folders, missing);
  };
  const auto found = join({"a", "b", "a/actor"});
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->path, dir_ / "a/actor");
  EXPECT_EQ(found->more_folders, std::vector<std::string>{dir_ / "b/actor"});
  EXPECT_EQ(found->hf_folder, dir_ / "b/actor/huggingface");
  EXPECT_EQ(found->rank_files[1], dir_ / "a/actor/model_world_size_4_rank_1.pt");
  EXPECT_EQ(found->rank_files[3], dir_ / "b/actor/model_world_size_4_rank_3.pt");
  ASSERT_EQ(found->notes.size(), 1u);
  EXPECT_NE(found->notes[0].find("rank 1 is in 2 folders, with equal bytes"), std::string::npos);

  write_file(dir_ / "b/actor/model_world_size_4_rank_1.pt", "y");
  EXPECT_THAT(join({"a", "b"}), Fails(ErrorCode::kIncomplete, "different files of rank 1"));
  config("a/actor", R"({"world_size": 8})");
  EXPECT_THAT(join({"a", "b"}), Fails(ErrorCode::kIncomplete, "of two checkpoints"));
  EXPECT_THAT(join({"a", "none"}), Fails(ErrorCode::kNotFound, "none"));
  EXPECT_THAT(join({}), Fails(ErrorCode::kInvalidArgument, "no folder"));
}

// A host that died before the others saved: each host's latest step is another one.
TEST_F(DiscoverTest, FoldersOfTwoStepsAreNotJoined) {
  shards("host0/global_step_20/actor", 4, {0, 1});
  write_file(dir_ / "host0/latest_checkpointed_iteration.txt", "20");
  shards("host1/global_step_10/actor", 4, {2, 3});
  write_file(dir_ / "host1/latest_checkpointed_iteration.txt", "10");
  shards("host1/global_step_20/actor", 4, {2, 3});
  shards("copied", 4, {2, 3});
  const auto join = [this](const char* second) {
    const std::vector<std::string> folders = {dir_ / "host0", dir_ / second};
    return discover_checkpoint(posix_file_system(), folders, MissingRanks::kRefused);
  };
  EXPECT_THAT(join("host1"), Fails(ErrorCode::kIncomplete, "of two steps of training"));
  EXPECT_THAT(join("host1"), Fails(ErrorCode::kIncomplete, "found step 10"));
  EXPECT_THAT(join("host1/global_step_20"), IsOk());
  EXPECT_THAT(join("copied"), IsOk()) << "what does not say its step";
}

TEST_F(DiscoverTest, MissingRanksMayBeAllowed) {
  shards("a", 8, {0, 1});
  shards("b", 8, {5});
  const std::vector<std::string> folders = {dir_ / "a", dir_ / "b"};
  EXPECT_THAT(discover_checkpoint(posix_file_system(), folders, MissingRanks::kRefused),
              Fails(ErrorCode::kIncomplete, "found ranks 0-1, 5; missing: 2-4, 6-7"));
  const auto found = discover_checkpoint(posix_file_system(), folders, MissingRanks::kAllowed);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->missing_ranks, (std::vector<std::int64_t>{2, 3, 4, 6, 7}));
  EXPECT_EQ(found->rank_files[2], "");
  EXPECT_THAT(missing_ranks_error(*found).message(), ::testing::HasSubstr("b'"));
}

TEST_F(DiscoverTest, OtherFoldersAreNamed) {
  shards("c", 1, {0});
  write_file(dir_ / "c/huggingface/config.json", "{}");
  EXPECT_THAT(discover("c/huggingface"), Fails(ErrorCode::kNotFound, "give the folder above"));
  write_file(dir_ / "dcp/.metadata", "");
  EXPECT_THAT(discover("dcp"), Fails(ErrorCode::kUnsupported, "torch.distributed.checkpoint"));
  write_file(dir_ / "hf/model.safetensors", "");
  EXPECT_THAT(discover("hf"), Fails(ErrorCode::kNotFound, "finished model"));
  EXPECT_THAT(discover("c/model_world_size_1_rank_0.pt"),
              Fails(ErrorCode::kInvalidArgument, "give the folder"));
  EXPECT_THAT(discover("none"), Fails(ErrorCode::kNotFound, "none"));
}

TEST_F(DiscoverTest, OtherNamesAreNoShards) {
  shards("c", 1, {0});
  write_file(dir_ / "c/model_world_size_1_rank_0.pt.tmp", "x");
  write_file(dir_ / "c/optim_world_size_4_rank_0.pt", "x");
  write_file(dir_ / "c/model_world_size_-3_rank_0.pt", "x");
  EXPECT_THAT(discover("c"), IsOk());
}

TEST(RankList, AsPeopleWriteIt) {
  EXPECT_EQ(rank_list({0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
  EXPECT_EQ(rank_list({}), "");
}

}  // namespace
}  // namespace shardkit
