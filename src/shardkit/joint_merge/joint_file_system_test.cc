#include "shardkit/joint_merge/joint_file_system.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shardkit/collective/message.h"
#include "shardkit/collective/thread_group.h"
#include "shardkit/joint_merge/partial_disk_test_util.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/ranks.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using testing::expect_all_ok;
using testing::Fails;
using testing::PartialDisk;
using testing::write_file;

Status expect(bool holds, const std::string& what) {
  return holds ? Status() : Status(Error(ErrorCode::kInternal, "expected: " + what));
}

/// Three ranks; the files of folder joint/ are on the disk of the rank that their name ends with.
class JointFileSystemTest : public ::testing::Test {
 protected:
  JointFileSystemTest() {
    for (const char* name : {"joint/a0", "joint/b1", "joint/below/c2", "other/d1"})
      write_file(dir_ / name, std::string("content of ") + name);
    write_file(dir_ / "joint/out/e1", "");
  }

  /// What `fn` does on rank 0, while the others answer.
  void on_rank_0(const std::function<Status(FileSystem&)>& fn) {
    expect_all_ok(3, [&](ProcessGroup& group) {
      const char own = static_cast<char>('0' + group.rank());
      PartialDisk disk(posix_file_system(), [own](const std::string& path) {
        const char last = path.back();
        return last >= '0' && last <= '2' && path[path.size() - 3] == '/' && last != own;
      });
      JointFileSystem files(disk, group, {dir_ / "joint/"}, dir_ / "joint/out");
      return files.calls().run([&] { return group.rank() == 0 ? fn(files) : Status(); });
    });
  }

  testing::TempDir dir_;
};

TEST_F(JointFileSystemTest, AFolderHoldsWhatAnyRankHas) {
  on_rank_0([this](FileSystem& files) -> Status {
    SHARDKIT_ASSIGN(const auto entries, files.list(dir_ / "joint"));
    std::string names;
    for (const DirectoryEntry& entry : entries) names += entry.name + " ";
    SHARDKIT_TRY(expect(names == "a0 b1 below out ", "all names, but '" + names + "'"));
    return expect(entries[1].info.bytes == 19, "the size of another rank's file");
  });
}

TEST_F(JointFileSystemTest, AFileIsReadWhereverItIs) {
  on_rank_0([this](FileSystem& files) -> Status {
    for (const char* name : {"joint/a0", "joint/b1", "joint/below/c2"}) {
      SHARDKIT_ASSIGN(const std::string text, read_whole_file(files, dir_ / name, 100));
      SHARDKIT_TRY(expect(text == std::string("content of ") + name, name));
      SHARDKIT_ASSIGN(const FileInfo info, files.info(dir_ / name));
      SHARDKIT_TRY(expect(info.kind == FileKind::kRegular && info.bytes == text.size(), name));
    }
    SHARDKIT_ASSIGN(const auto file, files.open(dir_ / "joint/b1"));
    std::string out(30, ' ');
    const Status beyond = file->read_at(0, std::as_writable_bytes(std::span(out)));
    return expect(!beyond.ok() && beyond.error().code() == ErrorCode::kIo, "an end of the file");
  });
}

/// What was announced comes with the first of it: later changes of the file are not seen.
TEST_F(JointFileSystemTest, WhatWasAnnouncedIsReadWithTheFirstOfIt) {
  constexpr std::size_t kBytes = 3'000'000;
  const auto content = [](std::size_t seed) {
    std::string text(kBytes, ' ');
    for (std::size_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>(i * 31 / 7 + seed);
    return text;
  };
  const std::string before = content(0), after = content(1);
  write_file(dir_ / "joint/b1", before);
  on_rank_0([&](FileSystem& files) -> Status {
    SHARDKIT_ASSIGN(const auto file, files.open(dir_ / "joint/b1"));
    const auto reads = [&](std::size_t offset, std::size_t bytes, const std::string& expected) {
      std::string out(bytes, ' ');
      const Status status = file->read_at(offset, std::as_writable_bytes(std::span(out)));
      if (!status.ok()) return status;
      return expect(out == expected.substr(offset, bytes), "at " + std::to_string(offset));
    };
    for (const std::size_t offset : {std::size_t{5'000}, std::size_t{1'000'000}, kBytes - 20})
      file->will_read(offset, 512);
    file->will_read(kBytes + 7, 512);
    SHARDKIT_TRY(reads(100, 50, before));
    SHARDKIT_TRY(reads(5'010, 500, before));
    write_file(dir_ / "joint/b1", after);
    SHARDKIT_TRY(reads(1'000'000, 512, before));
    SHARDKIT_TRY(reads(1'000'100, 4'000, after));  // more than was announced
    SHARDKIT_TRY(reads(kBytes - 20, 20, before));
    SHARDKIT_TRY(reads(2'000'000, 100, after));
    return reads(5'000, 512, after);  // not kept for ever
  });
}

/// More than a rank asks for ahead.
TEST_F(JointFileSystemTest, AnyNumberOfReadsMayBeAnnounced) {
  constexpr std::size_t kBytes = 9'000'001;
  std::string content(kBytes, ' ');
  for (std::size_t i = 0; i < kBytes; ++i) content[i] = static_cast<char>(i * 17 / 5);
  write_file(dir_ / "joint/b1", content);
  on_rank_0([&](FileSystem& files) -> Status {
    SHARDKIT_ASSIGN(const auto file, files.open(dir_ / "joint/b1"));
    for (std::size_t at = 0; at < kBytes; at += 700) file->will_read(at, 512);
    for (std::size_t at = 0; at < kBytes; at += 700) {
      std::string out(std::min<std::size_t>(512, kBytes - at), ' ');
      file->will_read(at + 500'000, 512);
      SHARDKIT_TRY(file->read_at(at, std::as_writable_bytes(std::span(out))));
      SHARDKIT_TRY(expect(content.compare(at, out.size(), out) == 0, std::to_string(at)));
    }
    return {};
  });
}

/// However a path is spelled: hosts may have the folder at other places.
TEST_F(JointFileSystemTest, APathThatWasResolvedIsKnown) {
  std::filesystem::create_directory_symlink(dir_ / "joint", dir_ / "linked");
  expect_all_ok(2, [&](ProcessGroup& group) {
    PartialDisk disk(posix_file_system(), [&group](const std::string& path) {
      return group.rank() == 0 && path.ends_with("/b1");
    });
    JointFileSystem files(disk, group, {dir_ / "linked"}, dir_ / "out");
    return files.calls().run([&]() -> Status {
      if (group.rank() == 1) return {};
      SHARDKIT_ASSIGN(const std::string text, read_whole_file(files, dir_ / "joint/b1", 100));
      return expect(text == "content of joint/b1", "the content");
    });
  });
}

/// As with --local_dir ../ckpt: what counts is that a path stays below the folder.
TEST_F(JointFileSystemTest, AFolderMayBeSpelledWithDots) {
  const std::string folder = dir_ / "other/../joint";
  expect_all_ok(2, [&](ProcessGroup& group) {
    PartialDisk disk(posix_file_system(), [&group](const std::string& path) {
      return group.rank() == 0 && (path.ends_with("/b1") || path.ends_with("/d1"));
    });
    JointFileSystem files(disk, group, {folder}, dir_ / "out");
    return files.calls().run([&]() -> Status {
      if (group.rank() == 1) return {};
      SHARDKIT_ASSIGN(const std::string text, read_whole_file(files, folder + "/b1", 100));
      SHARDKIT_TRY(expect(text == "content of joint/b1", "the content"));
      return expect(!files.open(folder + "/../other/d1").ok(), "nothing outside of the folder");
    });
  });
}

TEST_F(JointFileSystemTest, OutsideOfTheFoldersARankIsAlone) {
  on_rank_0([this](FileSystem& files) -> Status {
    for (const char* name : {"other/d1", "joint/out/e1", "joint/../other/d1"}) {
      EXPECT_THAT(files.info(dir_ / name), Fails(ErrorCode::kNotFound, "no such file here"))
          << name;
      EXPECT_THAT(files.open(dir_ / name), Fails(ErrorCode::kNotFound, "no such file here"))
          << name;
    }
    return {};
  });
}

TEST_F(JointFileSystemTest, WhatNobodyHas) {
  on_rank_0([this](FileSystem& files) -> Status {
    const std::string path = dir_ / "joint/x1";
    const std::string text = "no rank has this file or folder: file '" + path + "'";
    EXPECT_THAT(files.info(path), Fails(ErrorCode::kNotFound, text));
    EXPECT_THAT(files.open(path), Fails(ErrorCode::kNotFound, text));
    return {};
  });
}

/// Rank 1 says of each file that it has 9 bytes, and sends 5 of them.
TEST_F(JointFileSystemTest, ARankThatSendsAnotherNumberOfBytes) {
  const auto answer = [](std::string_view question) -> Result<std::string> {
    MessageReader in(question);
    SHARDKIT_ASSIGN(const std::int64_t kind, in.number());
    if (kind == 2) return std::string("bytes");
    MessageWriter info;
    info.put(static_cast<std::int64_t>(FileKind::kRegular));
    info.put(std::int64_t{9});
    info.put(std::int64_t{0});  // modified
    return std::move(info).take();
  };
  expect_all_ok(2, [&](ProcessGroup& group) {
    if (group.rank() == 1) return RankCalls(group, answer).run([] { return Status(); });
    JointFileSystem files(posix_file_system(), group, {dir_ / "joint"}, dir_ / "out");
    return files.calls().run([&]() -> Status {
      EXPECT_THAT(read_whole_file(files, dir_ / "joint/far", 100),
                  Fails(ErrorCode::kPeer,
                        "rank 1 sent too few or too many bytes of a file: expected 9, found 5, "
                        "file '" +
                            (dir_ / "joint/far") + "', offset 0"));
      return {};
    });
  });
}

/// A rank answers what it is asked about its folders alone, whoever asks.
TEST_F(JointFileSystemTest, OtherFilesAreNotTold) {
  std::filesystem::create_symlink(dir_ / "other/d1", dir_ / "joint/link");
  expect_all_ok(2, [&](ProcessGroup& group) {
    JointFileSystem files(posix_file_system(), group, {dir_ / "joint"}, dir_ / "out");
    return files.calls().run([&]() -> Status {
      if (group.rank() == 1) return {};
      for (const char* path : {"other/d1", "joint/../other/d1", "joint2", "joint/link"}) {
        MessageWriter question;
        question.put(std::int64_t{0});
        question.put(dir_ / path);
        const auto answer = files.calls().ask(1, std::move(question).take());
        EXPECT_THAT(answer, Fails(ErrorCode::kUnsafe,
                                  "another rank needs a file that is not in the given folders"))
            << path;
      }
      MessageWriter much;  // of one range twice
      much.put(std::int64_t{2});
      much.put(dir_ / "joint/a0");
      much.put(std::int64_t{2});
      for (const std::int64_t number : {0, 5 << 20, 0, 5 << 20}) much.put(number);
      const auto too_much = files.calls().ask(1, std::move(much).take());
      SHARDKIT_TRY(expect(!too_much.ok() && too_much.error().code() == ErrorCode::kPeer, "limits"));
      const auto answer = files.calls().ask(1, "no question");
      return expect(!answer.ok() && answer.error().code() == ErrorCode::kPeer, "an error");
    });
  });
}

}  // namespace
}  // namespace shardkit
