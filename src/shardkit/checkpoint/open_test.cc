#include "shardkit/checkpoint/open.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

class OpenTest : public ::testing::Test {
 protected:
  void copy(const std::string& fixture) {
    std::filesystem::copy(testing::source_path("tests/fixtures/" + fixture), dir_ / "c",
                          std::filesystem::copy_options::recursive);
  }
  std::string rank_file(int rank) const {
    return dir_ / ("c/model_world_size_4_rank_" + std::to_string(rank) + ".pt");
  }
  Result<Catalog> open(MissingRanks missing = MissingRanks::kRefused) {
    SHARDKIT_ASSIGN(const CheckpointFolder folder,
                    discover_checkpoint(posix_file_system(), dir_ / "c", missing));
    return open_checkpoint(posix_file_system(), folder);
  }

  /// In all copies together.
  static std::int64_t elements_of(const CatalogTensor& tensor) {
    std::int64_t count = 0;
    for (const Piece& piece : tensor.pieces) count += *element_count(piece.box.shape);
    return count;
  }

  testing::TempDir dir_;
};

TEST_F(OpenTest, FilesAreRememberedAsTheyWere) {
  copy("torch-2.13.0/fsdp2_fp32_w4");
  const auto catalog = open();
  ASSERT_THAT(catalog, IsOk());
  ASSERT_EQ(catalog->files.size(), 4u);
  EXPECT_EQ(catalog->files[2].path, rank_file(2));
  EXPECT_EQ(catalog->files[2].bytes, std::filesystem::file_size(rank_file(2)));
  EXPECT_NE(catalog->files[2].directory_crc, catalog->files[1].directory_crc);
}

// Every form of mesh tells who wrote it: the shards would be in the wrong place, and nothing else
// would show it.
TEST_F(OpenTest, AFileUnderAnotherRanksNameIsRefused) {
  for (const char* version : {"2.4.1", "2.6.0", "2.11.0", "2.13.0"}) {
    copy(std::string("torch-") + version + "/fsdp2_fp32_w4");
    std::filesystem::rename(rank_file(1), dir_ / "c/swap");
    std::filesystem::rename(rank_file(2), rank_file(1));
    std::filesystem::rename(dir_ / "c/swap", rank_file(2));
    EXPECT_THAT(open(), Fails(ErrorCode::kIncomplete, "a file that rank 2 wrote")) << version;
    std::filesystem::remove_all(dir_ / "c");
  }
}

TEST_F(OpenTest, OneRanksFileIsItsStateDict) {
  copy("torch-2.13.0/fsdp2_fp32_w4");
  const auto folder = discover_checkpoint(posix_file_system(), dir_ / "c");
  ASSERT_THAT(folder, IsOk());
  const auto file = read_rank_file(posix_file_system(), *folder, 2);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->source.path, rank_file(2));
  const auto* state = file->content.root.get_if<Dict>();
  ASSERT_NE(state, nullptr);
  const Value* embedding = find(*state, "model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->get_if<DTensor>()->local.shape, (Dims{25, 24})) << "of 99 rows";
  EXPECT_THAT(read_rank_file(posix_file_system(), *folder, 4),
              Fails(ErrorCode::kInvalidArgument, "expected ranks 0-3, found 4"));
  EXPECT_THAT(read_rank_file(posix_file_system(), *folder, -1),
              Fails(ErrorCode::kInvalidArgument, "no such rank"));
}

TEST_F(OpenTest, EveryBadFileIsNamed) {
  copy("torch-2.13.0/fsdp2_fp32_w4");
  testing::write_file(rank_file(1), "");
  testing::write_file(rank_file(3), "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(open(), Fails(ErrorCode::kCorrupt, "rank_1.pt"));
  EXPECT_THAT(open(), Fails(ErrorCode::kCorrupt, "also 'model_world_size_4_rank_3.pt'"));
}

// A 2x2 mesh (ddp, fsdp): ranks 0 and 2 hold the same shard, 1 and 3 the other one.
TEST_F(OpenTest, OneFullSetOfShardsIsEnough) {
  copy("torch-2.13.0/hsdp_bf16_w4");
  for (unsigned there = 1; there < 16; ++there) {
    for (int rank = 0; rank < 4; ++rank)
      if ((there >> rank & 1) == 0) std::filesystem::rename(rank_file(rank), rank_file(rank) + "_");
    const auto has = [there](int rank) { return static_cast<std::int32_t>(there >> rank & 1); };
    const std::int32_t copies = std::min(has(0) + has(2), has(1) + has(3));
    const auto catalog = open(MissingRanks::kAllowed);
    if (copies == 0) {
      EXPECT_THAT(catalog,
                  Fails(ErrorCode::kIncomplete, "and the missing ranks hold a part of every copy"));
      EXPECT_THAT(catalog, Fails(ErrorCode::kIncomplete, "missing: ")) << there;
    } else {
      ASSERT_THAT(catalog, IsOk()) << there;
      EXPECT_EQ(catalog->tensors.size(), 27u);
      EXPECT_EQ(catalog->warnings.size(), there == 15 ? 0u : 1u);
      for (const CatalogTensor& tensor : catalog->tensors) {
        EXPECT_EQ(elements_of(tensor), copies * tensor.numel()) << there;
        EXPECT_EQ(tensor.replicas, copies) << there;
        EXPECT_EQ(tensor.missing_replicas, 2 - copies) << there;
      }
    }
    for (int rank = 0; rank < 4; ++rank)
      if ((there >> rank & 1) == 0) std::filesystem::rename(rank_file(rank) + "_", rank_file(rank));
  }
}

TEST_F(OpenTest, MissingRanksAreToldWithWhatCouldNotBeCompared) {
  copy("torch-2.13.0/hsdp_bf16_w4");
  std::filesystem::remove(rank_file(2));
  std::filesystem::remove(rank_file(3));
  const auto catalog = open(MissingRanks::kAllowed);
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(catalog->missing_ranks, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(catalog->files.size(), 2u);
  EXPECT_EQ(catalog->warnings[0],
            "ranks 2-3 are missing; the others hold every tensor whole. Not there to be compared: "
            "1 of 2 copies of 27 tensors");
  EXPECT_THAT(open(MissingRanks::kRefused), Fails(ErrorCode::kIncomplete, "missing: 2-3"));
}

TEST_F(OpenTest, ShardsThatAreNoWholeCopyAreToldOf) {
  copy("torch-2.13.0/hsdp_bf16_w4");
  std::filesystem::remove(rank_file(2));
  const auto catalog = open(MissingRanks::kAllowed);
  ASSERT_THAT(catalog, IsOk());
  EXPECT_EQ(
      catalog->warnings[0],
      "ranks 2 are missing; the others hold every tensor whole. Not there to be compared: 1 of "
      "2 copies of 27 tensors; ranks 3 are there, but hold no other copy whole: their shards "
      "are not compared");
}

// Without a mesh of all ranks, what is missing may be a stage of a pipeline.
TEST_F(OpenTest, MissingRanksThatMayHoldTensorsOfTheirOwnAreRefused) {
  for (const char* fixture :
       {"torch-2.13.0/fsdp1_shardedtensor_fp32_w4", "torch-2.13.0/placements_fp32_w4"}) {
    copy(fixture);
    std::filesystem::remove(rank_file(3));
    EXPECT_THAT(open(MissingRanks::kAllowed),
                Fails(ErrorCode::kIncomplete, "expected ranks 0-3, found ranks 0-2; missing: 3"))
        << fixture;
    std::filesystem::remove_all(dir_ / "c");
  }
  copy("torch-2.13.0/plain_fp32_w2");
  std::filesystem::remove(dir_ / "c/model_world_size_2_rank_1.pt");
  EXPECT_THAT(open(MissingRanks::kAllowed),
              Fails(ErrorCode::kIncomplete, "and nothing proves that the missing ranks hold"));
}

// PyTorch 2.4: FSDP1 redistributes and its (Shard(0), Shard(0)) is true, FSDP2's is not.
TEST_F(OpenTest, TheRowOrderOfPyTorch24sFsdp2IsNotGuessed) {
  copy("torch-2.4.1/fsdp1_tp_fp32_w4");
  EXPECT_THAT(open(), IsOk());
  testing::write_file(dir_ / "c/fsdp_config.json", R"({"FSDP_version": 2, "world_size": 4})");
  EXPECT_THAT(open(), Fails(ErrorCode::kUnsupported, "PyTorch 2.4 or older"));
  std::filesystem::remove(dir_ / "c/fsdp_config.json");
  EXPECT_THAT(open(), Fails(ErrorCode::kUnsupported, "[S(0), S(0)]"));
  std::filesystem::remove_all(dir_ / "c");
  copy("torch-2.6.0/fsdp1_tp_fp32_w4");
  testing::write_file(dir_ / "c/fsdp_config.json", R"({"FSDP_version": 2, "world_size": 4})");
  EXPECT_THAT(open(), IsOk()) << "2.5 and newer say _StridedShard where it is meant";
}

}  // namespace
}  // namespace shardkit
