#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "shardkit/io/file_system.h"
#include "shardkit/io/system_calls.h"
#include "shardkit/testing/faulty_calls.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::TempDir;
using testing::write_file;

class PosixFileSystemTest : public ::testing::Test {
 protected:
  TempDir dir_;
  FileSystem& fs_ = posix_file_system();
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_F(PosixFileSystemTest, ReadsAnyRange) {
  write_file(dir_ / "f", "0123456789");
  const auto file = fs_.open(dir_ / "f").value();
  EXPECT_EQ(file->size(), 10u);
  std::string text(4, '?');
  file->will_read(3, 100);  // a hint may reach beyond the end
  ASSERT_THAT(file->read_at(3, std::as_writable_bytes(std::span(text))), IsOk());
  EXPECT_EQ(text, "3456");
}

TEST_F(PosixFileSystemTest, AReadBeyondTheEndNamesFileAndOffset) {
  write_file(dir_ / "f", "0123456789");
  const auto file = fs_.open(dir_ / "f").value();
  std::string text(4, '?');
  EXPECT_THAT(file->read_at(8, std::as_writable_bytes(std::span(text))),
              Fails(ErrorCode::kIo, "offset 10"));
}

TEST_F(PosixFileSystemTest, AFileThatShrinksIsAnError) {
  write_file(dir_ / "f", "0123456789");
  const auto file = fs_.open(dir_ / "f").value();
  std::filesystem::resize_file(dir_ / "f", 5);
  std::string text(10, '?');
  EXPECT_THAT(file->read_at(0, std::as_writable_bytes(std::span(text))),
              Fails(ErrorCode::kIo, "ends too early"));
}

TEST_F(PosixFileSystemTest, OnlyRegularFilesOpen) {
  EXPECT_THAT(fs_.open(dir_ / "none"), Fails(ErrorCode::kNotFound, "none"));
  EXPECT_THAT(fs_.open(dir_.path()), Fails(ErrorCode::kIo, "not a regular file"));
  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(fs_.open(dir_ / "fifo"), Fails(ErrorCode::kIo, "not a regular file"));
}

TEST_F(PosixFileSystemTest, CreateRefusesWhatExists) {
  const auto file = fs_.create(dir_ / "new").value();
  ASSERT_THAT(file->write_at(2, bytes_of("cd")), IsOk());
  ASSERT_THAT(file->write_at(0, bytes_of("ab")), IsOk());
  ASSERT_THAT(file->sync(), IsOk());
  ASSERT_THAT(file->close(), IsOk());
  EXPECT_EQ(testing::read_file(dir_ / "new"), "abcd");
  EXPECT_THAT(fs_.create(dir_ / "new"), Fails(ErrorCode::kIo, "new"));
}

TEST_F(PosixFileSystemTest, AReservedFileHasItsSize) {
  for (const auto bytes : {0u, 5u}) {
    const auto file = fs_.create(dir_ / std::to_string(bytes)).value();
    ASSERT_THAT(file->reserve(bytes), IsOk());
    ASSERT_THAT(file->write_at(0, bytes_of("ab")), IsOk());
    file->start_writeback(0, 2);
    ASSERT_THAT(file->close(), IsOk());
  }
  EXPECT_EQ(testing::read_file(dir_ / "0"), "ab");
  EXPECT_EQ(testing::read_file(dir_ / "5"), std::string("ab\0\0\0", 5));
}

TEST_F(PosixFileSystemTest, ListsSortedAndSeesThroughLinks) {
  write_file(dir_ / "b", "12");
  write_file(dir_ / "sub/x", "");
  std::filesystem::create_symlink("b", dir_ / "a");
  std::filesystem::create_symlink("gone", dir_ / "dangling");
  const auto entries = fs_.list(dir_.path()).value();
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].info.bytes, 2u);
  EXPECT_EQ(entries[2].info.kind, FileKind::kOther);
  EXPECT_EQ(entries[3].info.kind, FileKind::kDirectory);
  EXPECT_THAT(fs_.list(dir_ / "none"), Fails(ErrorCode::kNotFound, "none"));
}

TEST_F(PosixFileSystemTest, RemovesTreesButNotWhatLinksPointTo) {
  write_file(dir_ / "kept/x", "1");
  write_file(dir_ / "tree/y", "2");
  std::filesystem::create_directory_symlink(dir_ / "kept", dir_ / "tree/link");
  ASSERT_THAT(fs_.remove_all(dir_ / "tree"), IsOk());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "tree"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "kept/x"));
  EXPECT_THAT(fs_.remove_all(dir_ / "tree"), IsOk());
}

TEST_F(PosixFileSystemTest, ExchangesTwoFolders) {
  write_file(dir_ / "a/one", "");
  write_file(dir_ / "b/two", "");
  ASSERT_THAT(fs_.exchange(dir_ / "a", dir_ / "b"), IsOk());
  EXPECT_TRUE(std::filesystem::exists(dir_ / "a/two"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "b/one"));
  testing::FaultyCalls calls;
  calls.has_exchange = false;
  EXPECT_THAT(make_posix_file_system(calls)->exchange(dir_ / "a", dir_ / "b"),
              Fails(ErrorCode::kUnsupported, "the file system cannot exchange two names: file '"));
}

TEST_F(PosixFileSystemTest, AWriteOfNothingIsAnError) {
  struct FullAfterTwo : SystemCalls {
    ssize_t pwrite(int fd, const void* data, std::size_t, off_t offset) override {
      return offset < 2 ? SystemCalls::pwrite(fd, data, 1, offset) : 0;
    }
  } calls;
  const auto file = make_posix_file_system(calls)->create(dir_ / "f").value();
  const Status status = file->write_at(0, bytes_of("0123"));
  EXPECT_THAT(status, Fails(ErrorCode::kIo, "the system writes no more bytes"));
  EXPECT_EQ(status.error().offset(), 2u);
}

TEST_F(PosixFileSystemTest, ALockThatIsAlwaysGoneIsGivenUp) {
  struct RemovedByOthers : SystemCalls {
    explicit RemovedByOthers(std::string path) : path_(std::move(path)) {}
    int flock(int fd, int operation) override {
      SystemCalls::unlink(path_.c_str());
      return SystemCalls::flock(fd, operation);
    }
    const std::string path_;
  } calls(dir_ / "lock");
  EXPECT_THAT(make_posix_file_system(calls)->lock(dir_ / "lock", "me"),
              Fails(ErrorCode::kIo, "the lock is removed again and again"));
}

TEST_F(PosixFileSystemTest, WholeFilesHaveALimit) {
  write_file(dir_ / "f", "0123456789");
  EXPECT_EQ(read_whole_file(fs_, dir_ / "f", 10).value(), "0123456789");
  EXPECT_THAT(read_whole_file(fs_, dir_ / "f", 9), Fails(ErrorCode::kLimit, "at most 9 bytes"));
}

}  // namespace
}  // namespace shardkit
