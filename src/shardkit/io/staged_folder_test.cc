#include "shardkit/io/staged_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::TempDir;
using testing::write_file;

class StagedFolderTest : public ::testing::Test {
 protected:
  Result<StagedFolder> create(const std::string& target,
                              ExistingTarget existing = ExistingTarget::kRefuse) {
    return StagedFolder::create(posix_file_system(), target, existing);
  }

  void put(StagedFolder& stage, std::string_view name, std::string_view text) {
    const auto file = stage.create_file(name).value();
    file->write_at(0, std::as_bytes(std::span(text))).value();
    stage.finish_file(*file).value();
  }

  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
      names.insert(entry.path().filename().string());
    return names;
  }

  TempDir dir_;
};

TEST_F(StagedFolderTest, NothingShowsUntilItIsPublished) {
  auto stage = create(dir_ / "out").value();
  put(stage, "a/b.txt", "text");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
  ASSERT_THAT(stage.publish(), IsOk());
  EXPECT_EQ(testing::read_file(dir_ / "out/a/b.txt"), "text");
  EXPECT_EQ(names(), std::set<std::string>{"out"});
}

TEST_F(StagedFolderTest, FilesAreSyncedOnlyWhereTheStageIs) {
  struct CountingFile final : WritableFile {
    int syncs = 0;
    int closes = 0;
    Status write_at(std::uint64_t, std::span<const std::byte>) override { return {}; }
    Status sync() override { return ++syncs, Status(); }
    Status close() override { return ++closes, Status(); }
  };
  for (const Durability durability : {Durability::kSynced, Durability::kUnsynced}) {
    auto stage = StagedFolder::create(posix_file_system(), dir_ / "out", ExistingTarget::kReplace,
                                      durability).value();
    CountingFile file;
    ASSERT_THAT(stage.finish_file(file), IsOk());
    EXPECT_EQ(file.syncs, durability == Durability::kSynced ? 1 : 0);
    EXPECT_EQ(file.closes, 1);
    put(stage, "f", "x");
    ASSERT_THAT(stage.publish(), IsOk());
    EXPECT_EQ(testing::read_file(dir_ / "out/f"), "x");
  }
}

TEST_F(StagedFolderTest, AnUnpublishedStageLeavesNothing) {
  {
    auto stage = create(dir_ / "out").value();
    put(stage, "f", "x");
    EXPECT_EQ(names().size(), 1u);
  }
  EXPECT_EQ(names(), std::set<std::string>{});
}

TEST_F(StagedFolderTest, AnEmptyTargetIsNoObstacle) {
  std::filesystem::create_directory(dir_ / "out");
  auto stage = create(dir_ / "out").value();
  put(stage, "f", "x");
  ASSERT_THAT(stage.publish(), IsOk());
  EXPECT_EQ(testing::read_file(dir_ / "out/f"), "x");
}

TEST_F(StagedFolderTest, ATargetThatHoldsSomethingIsRefused) {
  write_file(dir_ / "out/old", "1");
  EXPECT_THAT(create(dir_ / "out"), Fails(ErrorCode::kInvalidArgument, "--overwrite"));
  write_file(dir_ / "file", "1");
  EXPECT_THAT(create(dir_ / "file"), Fails(ErrorCode::kInvalidArgument, "is a file"));
  EXPECT_THAT(create(dir_ / "file/below"), Fails(ErrorCode::kInvalidArgument, "a folder is needed"));
}

TEST_F(StagedFolderTest, ATargetThatFillsMeanwhileIsRefused) {
  auto stage = create(dir_ / "out").value();
  write_file(dir_ / "out/other", "1");
  EXPECT_THAT(stage.publish(), Fails(ErrorCode::kInvalidArgument, "--overwrite"));
  EXPECT_EQ(testing::read_file(dir_ / "out/other"), "1");
}

TEST_F(StagedFolderTest, OverwriteReplacesTheWholeFolder) {
  write_file(dir_ / "out/old", "1");
  auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
  put(stage, "new", "2");
  EXPECT_EQ(testing::read_file(dir_ / "out/old"), "1");
  ASSERT_THAT(stage.publish(), IsOk());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/old"));
  EXPECT_EQ(testing::read_file(dir_ / "out/new"), "2");
  EXPECT_EQ(names(), std::set<std::string>{"out"});
}

TEST_F(StagedFolderTest, TheCurrentFolderIsNeverReplaced) {
  EXPECT_THAT(create(".", ExistingTarget::kReplace),
              Fails(ErrorCode::kInvalidArgument, "current folder"));
  EXPECT_THAT(create("/", ExistingTarget::kReplace), Fails(ErrorCode::kInvalidArgument, "root"));
}

TEST_F(StagedFolderTest, ALinkedTargetIsReplacedWhereItPoints) {
  std::filesystem::create_directory(dir_ / "real");
  std::filesystem::create_directory_symlink("real", dir_ / "link");
  auto stage = create(dir_ / "link").value();
  put(stage, "f", "x");
  ASSERT_THAT(stage.publish(), IsOk());
  EXPECT_EQ(testing::read_file(dir_ / "real/f"), "x");
  EXPECT_TRUE(std::filesystem::is_symlink(dir_ / "link"));
}

}  // namespace
}  // namespace shardkit
