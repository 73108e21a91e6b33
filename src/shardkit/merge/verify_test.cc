#include "shardkit/merge/verify.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() : checkpoint_(testing::source_path("tests/fixtures/torch-2.13.0/fsdp_tp_fp32_w4")) {
    MergeOptions options;
    options.local_dir = checkpoint_;
    options.target_dir = dir_ / "out";
    options.max_shard_bytes = 20000;
    FSDPModelMerger(posix_file_system(), options).merge_and_save().value();
  }

  Result<VerifyReport> folder() { return verify_folder(posix_file_system(), dir_ / "out"); }
  Result<VerifyReport> against(const std::string& checkpoint) {
    return verify_against_checkpoint(posix_file_system(), dir_ / "out", {&checkpoint, 1}, {});
  }
  void flip_byte(const std::string& name, std::size_t at) {
    std::string content = testing::read_file(dir_ / ("out/" + name));
    content[at] = static_cast<char>(content[at] ^ 1);
    testing::write_file(dir_ / ("out/" + name), content);
  }

  const std::string checkpoint_;
  testing::TempDir dir_;
};

TEST_F(VerifyTest, WhatWasWrittenIsAsWritten) {
  const auto report = folder();
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->differences.empty());
  EXPECT_TRUE(report->unlisted.empty());
  EXPECT_EQ(report->files, 5u) << "two weight files, the index, two sidecars";
  const auto shards = against(checkpoint_);
  ASSERT_THAT(shards, IsOk());
  EXPECT_TRUE(shards->differences.empty());
  EXPECT_EQ(shards->files, 2u);
}

TEST_F(VerifyTest, AFlippedByteIsFoundInBothWays) {
  flip_byte("model-00001-of-00002.safetensors", 9000);
  const auto report = folder();
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->differences.size(), 1u);
  EXPECT_NE(report->differences[0].find("model-00001-of-00002.safetensors"), std::string::npos);
  const auto shards = against(checkpoint_);
  ASSERT_THAT(shards, IsOk());
  ASSERT_EQ(shards->differences.size(), 1u);
  EXPECT_NE(shards->differences[0].find("differs from byte 9000 on, in tensor 'model."),
            std::string::npos);
}

TEST_F(VerifyTest, MissingCutAndUnlistedFilesAreTold) {
  std::filesystem::remove(dir_ / "out/config.json");
  std::filesystem::resize_file(dir_ / "out/model-00002-of-00002.safetensors", 100);
  testing::write_file(dir_ / "out/sub/more", "x");
  const auto report = folder();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->differences.size(), 2u);
  EXPECT_EQ(report->unlisted, std::vector<std::string>{"sub/more"});
}

TEST_F(VerifyTest, AnotherModelsCheckpointDiffers) {
  const auto report = against(testing::source_path("tests/fixtures/torch-2.13.0/critic_fp32_w4"));
  ASSERT_THAT(report, IsOk());
  EXPECT_FALSE(report->differences.empty());
}

TEST_F(VerifyTest, AManifestIsNotBelieved) {
  const std::string path = dir_ / "out/shardkit_manifest.json";
  const std::string text = testing::read_file(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    testing::write_file(path, changed);
    return folder();
  };
  EXPECT_THAT(with("\"config.json\"", "\"../secret\""), Fails(ErrorCode::kUnsafe, "../secret"));
  EXPECT_THAT(with("\"config.json\"", "\"/etc/passwd\""), Fails(ErrorCode::kUnsafe, "/etc/passwd"));
  EXPECT_THAT(with("\"block_bytes\": 8388608", "\"block_bytes\": 1"),
              Fails(ErrorCode::kUnsupported, "block size"));
  EXPECT_THAT(with("\"xxh3_64\":[\"", "\"xxh3_64\":[\"zz"),
              Fails(ErrorCode::kCorrupt, "16 digits"));
  EXPECT_THAT(with("\"xxh3_64\":[", "\"xxh3_64\":[\"0000000000000000\","),
              Fails(ErrorCode::kCorrupt, "do not fit"));
  const std::pair<const char*, const char*> wrong[] = {
      {"\"options\"", "'options' is missing"},
      {"\"files\"", "'files' is missing or no list"},
      {"\"block_bytes\"", "'block_bytes' is missing or no number"},
      {"\"shardkit_version\"", "'shardkit_version' is missing or no string"},
      {"\"xxh3_64\"", "a file has no hashes"}};
  for (const auto& [member, reason] : wrong)
    EXPECT_THAT(
        with(member, "\"other\""),
        Fails(ErrorCode::kCorrupt, std::string("this is no manifest of a merge: ") + reason));
  EXPECT_THAT(with("\"xxh3_64\":[\"", "\"xxh3_64\":[\"000000000000000g\",\""),
              Fails(ErrorCode::kCorrupt, "a hash is not hexadecimal"));
  std::filesystem::remove(path);
  EXPECT_THAT(folder(), Fails(ErrorCode::kNotFound, "shardkit_manifest.json"));
}

}  // namespace
}  // namespace shardkit
