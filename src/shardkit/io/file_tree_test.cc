// Folders that are made: which names reach the device, and what stands in the way.
#include "shardkit/io/file_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shardkit/io/system_calls.h"
#include "shardkit/testing/faulty_calls.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/recording_calls.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::IsOk;
using testing::TempDir;

TEST(MakePrivateDirectory, TakesOneThatIsThereOnlyIfItIsPrivate) {
  const TempDir dir;
  const std::string path = dir / "a";
  using std::filesystem::perms;
  EXPECT_THAT(make_private_directory(path), IsOk());
  EXPECT_EQ(std::filesystem::status(path).permissions(), perms::owner_all);
  EXPECT_THAT(make_private_directory(path), IsOk());
  for (const perms open : {perms(0701), perms(0750), perms(0777)}) {
    std::filesystem::permissions(path, open);
    EXPECT_THAT(make_private_directory(path), Fails(ErrorCode::kIo, "of this user alone"));
  }
  std::filesystem::permissions(path, perms::owner_all);
  std::filesystem::create_directory_symlink(path, dir / "link");
  EXPECT_THAT(make_private_directory(dir / "link"), Fails(ErrorCode::kIo, "of this user alone"));
  testing::write_file(dir / "file", "");
  EXPECT_THAT(make_private_directory(dir / "file"), Fails(ErrorCode::kIo, "of this user alone"));
  EXPECT_THAT(make_private_directory(dir / "none/b"), Fails(ErrorCode::kIo, "cannot make"));
}

TEST(MakeDirectories, EachNewNameIsSynced) {
  const TempDir dir;
  testing::RecordingCalls calls;
  const auto fs = make_posix_file_system(calls);
  ASSERT_THAT(make_directories(*fs, dir / "a/b", Durability::kSynced), IsOk());
  EXPECT_THAT(calls.calls(), ElementsAre("make " + dir / "a", "sync " + dir.path(),
                                         "make " + dir / "a/b", "sync " + dir / "a"));
  ASSERT_THAT(make_directories(*fs, dir / "a/b", Durability::kSynced), IsOk());
  EXPECT_EQ(calls.calls().size(), 4u) << "nothing new";
  ASSERT_THAT(make_directories(*fs, dir / "a/c", Durability::kUnsynced), IsOk());
  EXPECT_EQ(calls.calls().size(), 5u) << "made, not synced";
}

TEST(MakeDirectories, AFolderThatCannotBeSyncedIsAnError) {
  for (const int k : {1, 2}) {
    const TempDir dir;
    testing::FaultyCalls calls({.kind = testing::CallKind::kFsync, .k = k, .number = EIO});
    const auto fs = make_posix_file_system(calls);
    EXPECT_THAT(make_directories(*fs, dir / "a/b", Durability::kSynced),
                Fails(ErrorCode::kIo, k == 1 ? dir.path() : dir / "a"));
  }
}

TEST(MakeDirectories, AFileInTheWayIsAnError) {
  const TempDir dir;
  testing::write_file(dir / "a", "");
  FileSystem& fs = posix_file_system();
  EXPECT_THAT(make_directories(fs, dir / "a", Durability::kSynced),
              Fails(ErrorCode::kInvalidArgument, "a folder is needed"));
  EXPECT_THAT(make_directories(fs, dir / "a/b", Durability::kSynced),
              Fails(ErrorCode::kInvalidArgument, "a folder is needed"));
}

TEST(MakeDirectories, BelowTheCurrentFolder) {
  const TempDir dir;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  EXPECT_THAT(make_directories(posix_file_system(), "a/b", Durability::kSynced), IsOk());
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_directory(dir / "a/b"));
}

}  // namespace
}  // namespace shardkit
