// How far ahead rank files are read.
#include "shardkit/checkpoint/rank_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

#include "shardkit/io/system_calls.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/torch_pt/writer.h"

namespace shardkit {
namespace {

using testing::IsOk;

constexpr std::int64_t kRanks = 8;

/// Remembers which files were opened.
class OpenedFiles : public SystemCalls {
 public:
  int open(const char* path, int flags, mode_t mode) override {
    {
      const std::lock_guard lock(mutex_);
      paths_.insert(path);
    }
    changed_.notify_all();
    return SystemCalls::open(path, flags, mode);
  }

  /// Whether as many as this are opened, and soon after no more.
  bool are(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return paths_.size() >= count; });
    changed_.wait_for(lock, std::chrono::milliseconds(20), [&] { return paths_.size() > count; });
    return paths_.size() == count;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> paths_;
};

class RankReaderTest : public ::testing::Test {
 protected:
  /// Each rank's file has a pickle of about this size.
  CheckpointFolder write(std::size_t pickle_bytes) {
    CheckpointFolder folder;
    folder.path = dir_.path();
    folder.world_size = kRanks;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      folder.rank_files.push_back(dir_ / fmt::format("{}.pt", rank));
      const auto file = posix_file_system().create(folder.rank_files.back()).value();
      const Value text(std::string(pickle_bytes, static_cast<char>('a' + rank)));
      write_pt(*file, testing::make_dict({{"text", text}})).value();
      file->close().value();
    }
    return folder;
  }

  testing::TempDir dir_;
  OpenedFiles opened_;
  std::unique_ptr<FileSystem> fs_ = make_posix_file_system(opened_);
};

TEST_F(RankReaderTest, SmallFilesAreReadAheadByAllThreads) {
  const CheckpointFolder folder = write(100);
  RankReader reader(*fs_, folder, 4);
  ASSERT_THAT(reader.next(), IsOk());
  EXPECT_TRUE(opened_.are(5)) << "rank 0 and four more";
  for (std::int64_t rank = 1; rank < kRanks; ++rank) {
    const auto file = reader.next();
    ASSERT_THAT(file, IsOk());
    EXPECT_EQ(file->source.path, dir_ / fmt::format("{}.pt", rank));
    EXPECT_GT(file->content.pickle_bytes, 100u);
  }
}

// Else 16 ranks of 40,000 tensors took 913 MB on 16 cores, and 256 MB on one.
TEST_F(RankReaderTest, OfLargePicklesOneIsReadAhead) {
  const CheckpointFolder folder = write(7 << 20);  // two of them take more than 64 MiB
  RankReader reader(*fs_, folder, 4);
  for (std::size_t taken = 0; taken < kRanks; ++taken) {
    EXPECT_TRUE(opened_.are(taken + 1)) << "after " << taken;
    ASSERT_THAT(reader.next(), IsOk());
  }
}

// Two of the middle size fit, and three do not.
TEST_F(RankReaderTest, AsManyAreReadAheadAsFit) {
  const CheckpointFolder folder = write(5 << 20);
  RankReader reader(*fs_, folder, 4);
  ASSERT_THAT(reader.next(), IsOk());
  EXPECT_TRUE(opened_.are(3)) << "rank 0 and two more";
}

TEST_F(RankReaderTest, WithoutThreadsTheCallerReads) {
  const CheckpointFolder folder = write(100);
  RankReader reader(*fs_, folder, 0);
  EXPECT_TRUE(opened_.are(0));
  for (std::int64_t rank = 0; rank < kRanks; ++rank) ASSERT_THAT(reader.next(), IsOk());
}

}  // namespace
}  // namespace shardkit
