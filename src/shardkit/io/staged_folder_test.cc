#include "shardkit/io/staged_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <set>

#include "shardkit/io/system_calls.h"
#include "shardkit/testing/faulty_calls.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/recording_calls.h"
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
                              ExistingTarget existing = ExistingTarget::kRefuse,
                              std::string identity = "the command") {
    StageOptions options;
    options.existing = existing;
    options.identity = std::move(identity);
    options.key_file = "key";
    options.old_key_files = {"key", "old_key"};
    return StagedFolder::create(*fs_, target, options);
  }

  /// Runs `work` in a process that is then killed, so that no destructor runs.
  template <class Work>
  void killed(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
      work();
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
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
  testing::FaultyCalls calls_;
  std::unique_ptr<FileSystem> fs_ = make_posix_file_system(calls_);
};

TEST_F(StagedFolderTest, NothingShowsUntilItIsPublished) {
  auto stage = create(dir_ / "out").value();
  put(stage, "a/b.txt", "text");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
  ASSERT_THAT(stage.publish(), IsOk());
  EXPECT_EQ(testing::read_file(dir_ / "out/a/b.txt"), "text");
  EXPECT_EQ(names(), std::set<std::string>{"out"});
}

TEST_F(StagedFolderTest, FoldersMadeAboveTheTargetAreDurable) {
  testing::RecordingCalls calls;
  fs_ = make_posix_file_system(calls);
  ASSERT_THAT(create(dir_ / "runs/1/out"), IsOk());
  const auto made = calls.calls();
  EXPECT_THAT(std::vector(made.begin(), made.begin() + 4),
              ::testing::ElementsAre("make " + dir_ / "runs", "sync " + dir_.path(),
                                     "make " + dir_ / "runs/1", "sync " + dir_ / "runs"));
}

TEST_F(StagedFolderTest, NothingIsSyncedUnlessAskedFor) {
  testing::RecordingCalls calls;
  fs_ = make_posix_file_system(calls);
  StageOptions options;
  options.durability = Durability::kUnsynced;
  options.key_file = "key";
  auto stage = StagedFolder::create(*fs_, dir_ / "runs/1/out", options).value();
  put(stage, "a/key", "text");
  ASSERT_THAT(stage.publish(), IsOk());
  EXPECT_THAT(calls.calls(), ::testing::Each(::testing::Not(::testing::StartsWith("sync"))));
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
    StageOptions options;
    options.existing = ExistingTarget::kReplace;
    options.durability = durability;
    auto stage = StagedFolder::create(*fs_, dir_ / "out", options).value();
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
    EXPECT_EQ(names(), (std::set<std::string>{".out.shardkit-lock", ".out.shardkit-stage"}));
  }
  EXPECT_EQ(names(), std::set<std::string>{});
}

TEST_F(StagedFolderTest, AStageThatIsKeptIsTheNextOnesToTakeUp) {
  {
    auto stage = create(dir_ / "out").value();
    put(stage, "file", "text");
    stage.keep();
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
  auto stage = create(dir_ / "out").value();
  EXPECT_EQ(stage.found(), StagedFolder::Found::kContent);
  EXPECT_EQ(testing::read_file(stage.content_path("file")), "text");
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
  EXPECT_THAT(create(dir_ / "file/below"),
              Fails(ErrorCode::kInvalidArgument, "a folder is needed"));
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

TEST_F(StagedFolderTest, OfTwoOneIsToldWhoHoldsTheTarget) {
  const auto first = create(dir_ / "out");
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(create(dir_ / "out"),
              Fails(ErrorCode::kIo, "another merge is writing this target: found process " +
                                        std::to_string(::getpid())));
}

TEST_F(StagedFolderTest, WithoutLocksTheStageSaysSo) {
  struct NoLocks : SystemCalls {
    int flock(int, int) override { return errno = ENOLCK, -1; }
  } calls;
  fs_ = make_posix_file_system(calls);
  {
    auto stage = create(dir_ / "out").value();
    EXPECT_FALSE(stage.is_locked());
  }
  EXPECT_EQ(names(), std::set<std::string>{});
}

TEST_F(StagedFolderTest, TheSameCommandTakesUpWhatAKilledOneLeft) {
  killed([this] {
    auto stage = create(dir_ / "out").value();
    put(stage, "weights", "half");
    put(stage, "sidecar", "x");
    new StagedFolder(std::move(stage));
  });
  EXPECT_EQ(names(), (std::set<std::string>{".out.shardkit-lock", ".out.shardkit-stage"}));
  auto stage = create(dir_ / "out").value();
  EXPECT_EQ(stage.found(), StagedFolder::Found::kContent);
  EXPECT_EQ(testing::read_file(stage.content_path("weights")), "half");
  ASSERT_THAT(stage.keep_only({"weights"}), IsOk());
  put(stage, "sidecar", "y");
  ASSERT_THAT(stage.publish(), IsOk());
  EXPECT_EQ(testing::read_file(dir_ / "out/sidecar"), "y");
}

TEST_F(StagedFolderTest, AnotherCommandDiscardsIt) {
  killed([this] { new StagedFolder(create(dir_ / "out").value()); });
  {
    auto stage = create(dir_ / "out", ExistingTarget::kRefuse, "another").value();
    EXPECT_EQ(stage.found(), StagedFolder::Found::kDiscarded);
  }
  EXPECT_EQ(names(), std::set<std::string>{});
}

TEST_F(StagedFolderTest, WhatAKilledProcessLeftIsDiscarded) {
  killed([this] {
    auto stage = create(dir_ / "out").value();
    put(stage, "weights", "half");
    new StagedFolder(std::move(stage));
  });
  ASSERT_THAT(StagedFolder::discard(*fs_, dir_ / "out"), IsOk());
  EXPECT_EQ(names(), std::set<std::string>{});
  EXPECT_THAT(StagedFolder::discard(*fs_, dir_ / "out"), IsOk()) << "there is nothing";
  EXPECT_THAT(StagedFolder::discard(*fs_, dir_ / "no/such/out"), IsOk());
  EXPECT_EQ(names(), std::set<std::string>{});
  EXPECT_THAT(StagedFolder::discard(*fs_, "/"), Fails(ErrorCode::kInvalidArgument, "root"));
  const auto stage = create(dir_ / "out");
  EXPECT_THAT(StagedFolder::discard(*fs_, dir_ / "out"), Fails(ErrorCode::kIo, "process"));
  EXPECT_EQ(names(), (std::set<std::string>{".out.shardkit-lock", ".out.shardkit-stage"}));
}

/// The target is a mount point, cannot have neighbours, or the disk cannot exchange names.
class PublishByFilesTest : public StagedFolderTest,
                           public ::testing::WithParamInterface<std::string> {
 protected:
  PublishByFilesTest() {
    write_file(dir_ / "out/key", "old");
    write_file(dir_ / "out/old_key", "old");
    write_file(dir_ / "out/sub/stale", "old");
    write_file(dir_ / "elsewhere/kept", "kept");
    std::filesystem::create_directory_symlink("../elsewhere", dir_ / "out/link");
    if (GetParam() == "mount") calls_.mount_point = dir_ / "out";
    if (GetParam() == "read_only") calls_.read_only = dir_.path();
    if (GetParam() == "no_exchange") calls_.has_exchange = false;
  }

  /// Works with these calls, on the same kind of target.
  void use(testing::FaultyCalls& faulty) {
    faulty.mount_point = calls_.mount_point;
    faulty.read_only = calls_.read_only;
    faulty.has_exchange = calls_.has_exchange;
    fs_ = make_posix_file_system(faulty);
  }

  void fill(StagedFolder& stage) {
    put(stage, "key", "new");
    put(stage, "a", "new");
    put(stage, "deep/er/b", "new");
  }

  /// All but what is hidden there.
  std::set<std::string> target_files() const {
    std::set<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_ / "out")) {
      const auto path = std::filesystem::relative(entry.path(), dir_ / "out").string();
      if (!entry.is_directory() && !path.starts_with(".shardkit-")) files.insert(path);
    }
    return files;
  }

  void expect_new_content() {
    EXPECT_EQ(target_files(), (std::set<std::string>{"a", "deep/er/b", "key"}));
    EXPECT_EQ(testing::read_file(dir_ / "out/key"), "new");
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out/sub"));
    EXPECT_TRUE(std::filesystem::exists(dir_ / "elsewhere/kept")) << "links are not followed";
    EXPECT_EQ(names(), (std::set<std::string>{"elsewhere", "out"}));
  }
};

TEST_P(PublishByFilesTest, TheOldContentIsReplaced) {
  {
    auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
    fill(stage);
    ASSERT_THAT(stage.publish(), IsOk());
  }
  expect_new_content();
}

// The record of a publication has a name a line.
TEST_P(PublishByFilesTest, ANameWithALineBreakIsRefused) {
  auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
  put(stage, "key", "new");
  put(stage, "two\nlines", "new");
  EXPECT_THAT(stage.publish(),
              Fails(ErrorCode::kUnsupported, "a file with a line break in its name"));
  EXPECT_TRUE(target_files().contains("old_key")) << "nothing was touched";
}

TEST_P(PublishByFilesTest, AKilledPublicationIsEndedByTheSameCommand) {
  for (int k = 1; k <= 3; ++k) {
    killed([this, k] {
      testing::FaultyCalls faulty({testing::CallKind::kRename, k, testing::FaultAction::kKill});
      use(faulty);
      auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
      if (stage.found() == StagedFolder::Found::kNothing) fill(stage);
      stage.publish().value();
    });
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out/key")) << "half new and loadable";
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out/old_key"));
    {
      auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
      ASSERT_EQ(stage.found(), StagedFolder::Found::kPublishing);
      ASSERT_THAT(stage.publish(), IsOk());
    }
    expect_new_content();
  }
}

TEST_P(PublishByFilesTest, AKilledPublicationIsUndoneByAnotherCommand) {
  killed([this] {
    testing::FaultyCalls faulty({testing::CallKind::kRename, 3, testing::FaultAction::kKill});
    use(faulty);
    auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
    fill(stage);
    stage.publish().value();
  });
  {
    auto stage = create(dir_ / "out", ExistingTarget::kReplace, "another").value();
    EXPECT_EQ(stage.found(), StagedFolder::Found::kDiscarded);
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out/a"));
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out/deep"));
    fill(stage);
    ASSERT_THAT(stage.publish(), IsOk());
  }
  expect_new_content();
}

TEST_P(PublishByFilesTest, ADiscardedPublicationLeavesNeitherModel) {
  killed([this] {
    testing::FaultyCalls faulty({testing::CallKind::kRename, 2, testing::FaultAction::kKill});
    use(faulty);
    auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
    fill(stage);
    stage.publish().value();
  });
  use(calls_);
  ASSERT_THAT(StagedFolder::discard(*fs_, dir_ / "out"), IsOk());
  EXPECT_EQ(target_files(), std::set<std::string>{});
  EXPECT_EQ(names(), (std::set<std::string>{"elsewhere", "out"}));
}

TEST_P(PublishByFilesTest, AFolderComesWhereAFileOrALinkStood) {
  write_file(dir_ / "out/deep", "a file");
  killed([this] {
    testing::FaultyCalls faulty({testing::CallKind::kRename, 3, testing::FaultAction::kKill});
    use(faulty);
    auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
    fill(stage);
    put(stage, "link/c", "new");
    stage.publish().value();
  });
  auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
  ASSERT_EQ(stage.found(), StagedFolder::Found::kPublishing);
  ASSERT_THAT(stage.publish(), IsOk());
  EXPECT_EQ(target_files(), (std::set<std::string>{"a", "deep/er/b", "key", "link/c"}));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "elsewhere/c")) << "written through a link";
}

/// What a kill can leave of a publication that another command was undoing.
TEST_P(PublishByFilesTest, AnUndoneHalfIsNotTakenUpByItsOwnCommand) {
  const auto killed_at = [this](testing::Fault fault, const std::string& identity) {
    fault.action = testing::FaultAction::kKill;
    killed([&] {
      testing::FaultyCalls faulty(fault);
      use(faulty);
      auto stage = create(dir_ / "out", ExistingTarget::kReplace, identity).value();
      fill(stage);
      stage.publish().value();
    });
  };
  killed_at({testing::CallKind::kRename, 2}, "the command");
  ASSERT_TRUE(std::filesystem::exists(dir_ / "out/a"));
  // The first removal is that of the identity, the second that of what was moved.
  killed_at({testing::CallKind::kUnlink, 3}, "another");
  ASSERT_FALSE(std::filesystem::exists(dir_ / "out/a"));
  auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
  EXPECT_EQ(stage.found(), StagedFolder::Found::kDiscarded);
  fill(stage);
  ASSERT_THAT(stage.publish(), IsOk());
  expect_new_content();
}

TEST_P(PublishByFilesTest, AWholeOldModelOutlivesAStageThatIsDiscarded) {
  write_file(dir_ / "out/b", "old");
  // Killed when the record is there, and nothing moved: at the removal of the first old key.
  int k = 0;
  const auto record_is_there = [this] {
    return std::filesystem::exists(dir_ / "out/.shardkit-stage/publishing") ||
           std::filesystem::exists(dir_ / ".out.shardkit-stage/publishing");
  };
  while (!record_is_there()) {
    ASSERT_LT(++k, 50);
    std::filesystem::remove_all(dir_ / ".out.shardkit-stage");
    std::filesystem::remove_all(dir_ / "out/.shardkit-stage");
    killed([&] {
      testing::FaultyCalls faulty({testing::CallKind::kUnlink, k, testing::FaultAction::kKill});
      use(faulty);
      auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
      fill(stage);
      put(stage, "b", "new");
      stage.publish().value();
    });
  }
  const auto old = target_files();
  ASSERT_EQ(testing::read_file(dir_ / "out/key"), "old");
  // Another command discards the stage, and is killed at each of its removals.
  for (int unlinks = 1; unlinks < 20; ++unlinks)
    killed([&] {
      testing::FaultyCalls faulty(
          {testing::CallKind::kUnlink, unlinks, testing::FaultAction::kKill});
      use(faulty);
      create(dir_ / "out", ExistingTarget::kReplace, "another " + std::to_string(unlinks)).value();
    });
  EXPECT_EQ(target_files(), old);
  EXPECT_EQ(testing::read_file(dir_ / "out/key"), "old");
}

TEST_F(StagedFolderTest, AFileSystemThatRefusesToRenameOverAndToReserve) {
  struct OldCalls : testing::FaultyCalls {
    int rename(const char* from, const char* to) override {
      if (std::filesystem::exists(to)) return errno = EEXIST, -1;
      return FaultyCalls::rename(from, to);
    }
    int exchange(const char*, const char*) override { return errno = ENOSYS, -1; }
    int fallocate(int, off_t) override { return errno = EOPNOTSUPP, -1; }
  } calls;
  fs_ = make_posix_file_system(calls);
  std::filesystem::create_directory(dir_ / "out");
  for (const char* text : {"first", "second"}) {
    auto stage = create(dir_ / "out", ExistingTarget::kReplace).value();
    const auto file = stage.create_file("a").value();
    ASSERT_THAT(file->reserve(100), IsOk());
    ASSERT_THAT(stage.finish_file(*file), IsOk());
    put(stage, "key", text);
    ASSERT_THAT(stage.publish(), IsOk());
    EXPECT_EQ(testing::read_file(dir_ / "out/key"), text);
    EXPECT_EQ(names(), std::set<std::string>{"out"});
  }
}

TEST_F(StagedFolderTest, AKilledRenameIsKnownAgainButNoOtherFolderIsTakenForIt) {
  struct KilledAfterRename : SystemCalls {
    int rename(const char* from, const char* to) override {
      SystemCalls::rename(from, to);
      return ::kill(::getpid(), SIGKILL);
    }
  };
  const auto renamed_and_killed = [this] {
    killed([this] {
      KilledAfterRename calls;
      fs_ = make_posix_file_system(calls);
      auto stage = create(dir_ / "out").value();
      put(stage, "key", "new");
      stage.publish().value();
    });
  };
  renamed_and_killed();
  {
    auto stage = create(dir_ / "out").value();
    EXPECT_EQ(stage.found(), StagedFolder::Found::kPublished);
    ASSERT_THAT(stage.publish(), IsOk());
  }
  EXPECT_EQ(testing::read_file(dir_ / "out/key"), "new");
  EXPECT_EQ(names(), std::set<std::string>{"out"});
  std::filesystem::remove_all(dir_ / "out");
  renamed_and_killed();
  write_file(dir_ / "out/more", "of the user");
  EXPECT_THAT(create(dir_ / "out"), Fails(ErrorCode::kInvalidArgument, "--overwrite"));
  EXPECT_EQ(testing::read_file(dir_ / "out/more"), "of the user");
}

INSTANTIATE_TEST_SUITE_P(Reasons, PublishByFilesTest,
                         ::testing::Values("mount", "read_only", "no_exchange"),
                         [](const auto& reason) { return reason.param; });

}  // namespace
}  // namespace shardkit
