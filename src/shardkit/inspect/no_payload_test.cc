// Looking at a checkpoint and planning its merge read no tensor bytes.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "shardkit/inspect/inspection.h"
#include "shardkit/io/system_calls.h"
#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/torch_pt/reader.h"
#include "shardkit/torch_pt/writer.h"

namespace shardkit {
namespace {

using testing::IsOk;

constexpr std::int64_t kRanks = 3;
constexpr std::int64_t kTensors = 5;
constexpr std::int64_t kColumns = 100'000;
/// A local header is read with what stands behind it.
constexpr std::uint64_t kBehindAHeader = 512;

/// Counts the bytes that are read of each file, and remembers where.
class Recorder : public SystemCalls {
 public:
  struct Read {
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  int open(const char* path, int flags, mode_t mode) override {
    const int fd = SystemCalls::open(path, flags, mode);
    const std::lock_guard lock(mutex_);
    path_of_[fd] = path;
    return fd;
  }
  ssize_t pread(int fd, void* data, std::size_t bytes, off_t offset) override {
    const ssize_t got = SystemCalls::pread(fd, data, bytes, offset);
    const std::lock_guard lock(mutex_);
    reads_[path_of_[fd]].push_back(
        {static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(got)});
    return got;
  }

  const std::vector<Read>& reads_of(const std::string& path) { return reads_[path]; }

 private:
  std::mutex mutex_;
  std::map<int, std::string> path_of_;
  std::map<std::string, std::vector<Read>> reads_;
};

class NoPayloadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(dir_ / "c");
    testing::write_file(dir_ / "c/fsdp_config.json", R"({"FSDP_version": 2, "world_size": 3})");
    const auto mesh = std::make_shared<const DeviceMesh>(
        DeviceMesh::make("cpu", {kRanks}, {0, 1, 2}, {"fsdp"}).value());
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      Dict state;
      for (std::int64_t i = 0; i < kTensors; ++i) {
        const auto sharding =
            std::make_shared<const Sharding>(Sharding{mesh, {Shard{0}}, {kRanks, kColumns}, {}});
        Tensor local;
        local.shape = {1, kColumns};
        local.strides = {kColumns, 1};
        local.storage = std::make_shared<const Storage>(MemoryBlock{}, kColumns * 4);
        state.items.emplace_back(Value("w" + std::to_string(i)),
                                 Value(DTensor{std::move(local), sharding}));
      }
      const auto file = posix_file_system().create(rank_file(rank));
      ASSERT_THAT(file, IsOk());
      PtWriteOptions options;
      options.holes = true;
      options.rank = rank;
      ASSERT_THAT(write_pt(**file, Value(std::move(state)), options), IsOk());
      ASSERT_THAT((*file)->close(), IsOk());
    }
  }

  std::string rank_file(std::int64_t rank) const {
    return dir_ / ("c/model_world_size_3_rank_" + std::to_string(rank) + ".pt");
  }

  void expect_no_payload_read(Recorder& calls) {
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      const auto file = read_pt(posix_file_system(), rank_file(rank));
      ASSERT_THAT(file, IsOk());
      const auto& reads = calls.reads_of(rank_file(rank));
      EXPECT_FALSE(reads.empty());
      for (const auto& [key, value] : file->root.get_if<Dict>()->items) {
        const Storage& storage = *value.get_if<DTensor>()->local.storage;
        const std::uint64_t begin = storage.file()->offset;
        for (const auto& [offset, bytes] : reads)
          EXPECT_TRUE(offset + bytes <= begin + kBehindAHeader || offset >= begin + storage.bytes())
              << bytes << " bytes at " << offset << ", a tensor lies at " << begin;
      }
    }
  }

  testing::TempDir dir_;
};

TEST_F(NoPayloadTest, Inspect) {
  Recorder calls;
  const auto fs = make_posix_file_system(calls);
  const auto inspection = inspect(*fs, dir_ / "c");
  ASSERT_THAT(inspection, IsOk());
  EXPECT_TRUE(inspection->problems.empty());
  EXPECT_EQ(inspection->tensors.size(), static_cast<std::size_t>(kTensors));
  ASSERT_TRUE(inspection->forecast);
  expect_no_payload_read(calls);
}

TEST_F(NoPayloadTest, DryRun) {
  Recorder calls;
  const auto fs = make_posix_file_system(calls);
  MergeOptions options;
  options.local_dir = dir_ / "c";
  options.target_dir = dir_ / "out";
  const auto report = FSDPModelMerger(*fs, options).plan();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->summary.pieces, static_cast<std::uint64_t>(kRanks * kTensors));
  expect_no_payload_read(calls);
}

}  // namespace
}  // namespace shardkit
