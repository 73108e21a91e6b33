#include "shardkit/joint_merge/agree_on_copies.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "shardkit/joint_merge/partial_disk_test_util.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/ranks.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using testing::expect_all_fail;
using testing::expect_all_ok;
using testing::PartialDisk;
using testing::write_file;

/// Three ranks. File "model" is on the disk of all; a test says what ranks have instead.
class AgreeOnCopiesTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 5'000'001;  // more than is read at once

  AgreeOnCopiesTest() { write_file(dir_ / "model", std::string(kBytes, 'a')); }

  SourceFile model(std::uint64_t bytes = kBytes, std::uint32_t directory_crc = 0) const {
    return {dir_ / "model", bytes, 0, directory_crc};
  }
  /// A copy that differs in its last byte.
  std::string other() {
    write_file(dir_ / "other", std::string(kBytes - 1, 'a') + "b");
    return dir_ / "other";
  }
  std::string equal() {
    std::filesystem::copy_file(dir_ / "model", dir_ / "equal");
    return dir_ / "equal";
  }

  /// @param instead  what a rank has under the name, by rank; empty: the file that others have
  static std::function<Status(ProcessGroup&)> agree(std::vector<SourceFile> files,
                                                    std::vector<std::string> instead,
                                                    const std::atomic<bool>* cancel = nullptr) {
    return [files, instead, cancel](ProcessGroup& group) {
      const std::string& own = instead[static_cast<std::size_t>(group.rank())];
      PartialDisk disk(posix_file_system(), own.empty() ? "" : files.front().path, own);
      RankCalls calls(group, [](std::string_view) -> Result<std::string> {
        return Error(ErrorCode::kInternal, "nobody asks");
      });
      return agree_on_copies(disk, calls, group, files, cancel);
    };
  }

  testing::TempDir dir_;
};

TEST_F(AgreeOnCopiesTest, OneByteThatDiffersIsFound) {
  expect_all_fail(3, agree({model()}, {"", "", other()}), ErrorCode::kIncomplete,
                  "ranks 0 and 2 differ in their copies of '" + (dir_ / "model") + "'");
}

TEST_F(AgreeOnCopiesTest, EqualCopiesMayBeOnSeveralDisks) {
  expect_all_ok(3, agree({model()}, {"", equal(), ""}));
}

TEST_F(AgreeOnCopiesTest, TheFirstFileThatDiffersIsNamed) {
  write_file(dir_ / "fine", "");
  expect_all_fail(3, agree({model(), {dir_ / "fine", 0, 0, 0}}, {equal(), other(), ""}),
                  ErrorCode::kIncomplete, "ranks 0 and 1 differ in their copies of '");
}

/// That a file is not read shows in that it may say it is longer than it is.
TEST_F(AgreeOnCopiesTest, AFileOnADiskThatAllShareIsNotRead) {
  expect_all_ok(3, agree({model(kBytes + 1)}, {"", "", ""}));
  // Of both ranks that read, either may be the first to find out.
  expect_all_fail(3, agree({model(kBytes + 1)}, {"", "", equal()}), ErrorCode::kIo,
                  "the file ends too early");
}

TEST_F(AgreeOnCopiesTest, AFileThatOneRankAloneHasIsNotRead) {
  const std::string none = dir_ / "none";
  expect_all_ok(3, agree({model(kBytes + 1)}, {none, "", none}));
}

TEST_F(AgreeOnCopiesTest, AFileWithADirectoryCrcIsNotRead) {
  expect_all_ok(3, agree({model(kBytes, 7)}, {"", "", other()}));
}

TEST_F(AgreeOnCopiesTest, ReadingMayBeCancelled) {
  const std::atomic<bool> cancel = true;
  expect_all_fail(3, agree({model()}, {"", "", equal()}, &cancel), ErrorCode::kCancelled,
                  "stopped on request");
}

}  // namespace
}  // namespace shardkit
