#include "shardkit/transfer/transfer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <mutex>
#include <random>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/no_threads.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/transfer/block_hash.h"
#include "shardkit/transfer/block_maker.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

/// Keeps every file in memory.
class MemorySink final : public BlockSink {
 public:
  explicit MemorySink(const Plan& plan) {
    for (const PlannedFile& file : plan.files()) files.emplace_back(file.bytes, '?');
  }
  Status write(std::size_t file, std::uint64_t offset, std::span<const std::byte> part) override {
    const std::lock_guard lock(mutex_);
    if (file == failing_file) return Error(ErrorCode::kIo, "no: byte " + std::to_string(offset));
    std::memcpy(files[file].data() + offset, part.data(), part.size());
    return {};
  }
  Status end_block(std::size_t file, std::uint64_t offset, std::uint64_t bytes,
                   std::uint64_t hash) override {
    const std::lock_guard lock(mutex_);
    const std::string_view block = std::string_view(files[file]).substr(offset, bytes);
    EXPECT_EQ(hash, block_hash(std::as_bytes(std::span(block))));
    ++blocks;
    return {};
  }

  std::vector<std::string> files;
  int blocks = 0;
  std::size_t failing_file = ~std::size_t{0};

 private:
  std::mutex mutex_;
};

/// Two files: one of 20 MB in rows and columns over four ranks' files, one of a few bytes.
class TransferTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 5000, kColumns = 1001;

  TransferTest() {
    std::mt19937 random(3);
    values_.resize(static_cast<std::size_t>(kRows * kColumns));
    for (std::uint32_t& value : values_) value = static_cast<std::uint32_t>(random());
    auto catalog = std::make_shared<Catalog>();
    CatalogTensor big;
    big.name = "big";
    big.dtype = DType::kInt32;
    big.shape = {kRows, kColumns};
    for (const Box& box : {Box{{0, 0}, {1700, 600}}, Box{{0, 600}, {1700, 401}},
                           Box{{1700, 0}, {3300, 600}}, Box{{1700, 600}, {3300, 401}}})
      big.pieces.push_back(piece_in_file(box));
    CatalogTensor small;
    small.name = "small";
    small.dtype = DType::kInt32;
    small.shape = {1};
    small.pieces.push_back(piece_in_file({{0, 0}, {1, 1}}));
    small.pieces[0].box = {{0}, {1}};
    small.pieces[0].strides = {1};
    catalog->tensors = {std::move(big), std::move(small)};
    PlannedFile first{"first", "headhead", {{0, DType::kInt32, 8}}, 8 + kRows * kColumns * 4};
    PlannedFile second{"second", "", {{1, DType::kInt32, 0}}, 4};
    plan_ = std::make_unique<Plan>(
        Plan::make(catalog, {first, second}, ReplicaPolicy::kCompare).value());
  }

  Piece piece_in_file(const Box& box) {
    std::string content;
    for (std::int64_t i = 0; i < box.shape[0]; ++i)
      content.append(
          reinterpret_cast<const char*>(
              &values_[static_cast<std::size_t>((box.offset[0] + i) * kColumns + box.offset[1])]),
          static_cast<std::size_t>(box.shape[1]) * 4);
    const auto path = std::make_shared<const std::string>(dir_ / std::to_string(files_++));
    testing::write_file(*path, content);
    Piece piece;
    piece.box = box;
    piece.strides = contiguous_strides(box.shape);
    piece.storage = std::make_shared<const Storage>(FileRange{path, 0}, content.size());
    return piece;
  }

  Status run(MemorySink& sink, TransferOptions options = {}) {
    return transfer(*plan_, posix_file_system(), sink, options);
  }

  testing::TempDir dir_;
  int files_ = 0;
  std::vector<std::uint32_t> values_;
  std::unique_ptr<Plan> plan_;
};

TEST_F(TransferTest, TheSameBytesForAnyNumberOfThreadsAndAnyBudget) {
  std::string wanted = "headhead";
  wanted.append(reinterpret_cast<const char*>(values_.data()), values_.size() * 4);
  for (const int threads : {1, 2, 5}) {
    for (const std::uint64_t budget : {kLeastBudget, std::uint64_t{256} << 20}) {
      MemorySink sink(*plan_);
      TransferOptions options;
      options.threads = threads;
      options.memory_budget = budget;
      ASSERT_THAT(run(sink, options), IsOk());
      EXPECT_TRUE(sink.files[0] == wanted);
      EXPECT_EQ(sink.files[1], wanted.substr(8, 4));
      EXPECT_EQ(sink.blocks, 4) << "three blocks of 8 MiB and one of a few bytes";
    }
  }
}

TEST_F(TransferTest, WithoutThreadsTheCallerWorks) {
  MemorySink sink(*plan_);
  const testing::NoThreads no_threads;
  ASSERT_THAT(run(sink), IsOk());
  EXPECT_EQ(sink.blocks, 4);
  sink.failing_file = 1;
  EXPECT_THAT(run(sink), Fails(ErrorCode::kIo, "byte 0"));
}

TEST_F(TransferTest, ProgressEndsAtTheTotal) {
  MemorySink sink(*plan_);
  Progress last;
  TransferOptions options;
  options.on_progress = [&last](const Progress& now) {
    EXPECT_GE(now.bytes_done, last.bytes_done);
    last = now;
  };
  ASSERT_THAT(run(sink, options), IsOk());
  EXPECT_EQ(last.bytes_done, plan_->summary().write_bytes);
  EXPECT_EQ(last.bytes_total, plan_->summary().write_bytes);
}

TEST_F(TransferTest, TheErrorOfTheFirstBlockIsReturned) {
  for (int round = 0; round < 20; ++round) {
    MemorySink sink(*plan_);
    sink.failing_file = 0;
    TransferOptions options;
    options.threads = 4;
    EXPECT_THAT(run(sink, options), Fails(ErrorCode::kIo, "byte 0"));
  }
}

TEST_F(TransferTest, ItStopsOnRequest) {
  MemorySink sink(*plan_);
  const std::atomic<bool> cancel = true;
  TransferOptions options;
  options.cancel = &cancel;
  EXPECT_THAT(run(sink, options), Fails(ErrorCode::kCancelled, "stopped"));
  EXPECT_EQ(sink.blocks, 0);
}

TEST_F(TransferTest, ASourceThatIsGoneOrShrankIsAnError) {
  std::filesystem::resize_file(dir_ / "3", 100);
  MemorySink sink(*plan_);
  EXPECT_THAT(run(sink), Fails(ErrorCode::kIo, "tensor 'big'"));
  std::filesystem::remove(dir_ / "0");
  EXPECT_THAT(run(sink), Fails(ErrorCode::kNotFound, "/0'"));
}

TEST_F(TransferTest, ABudgetThatHoldsNoBlockIsRefused) {
  MemorySink sink(*plan_);
  TransferOptions options;
  options.memory_budget = kLeastBudget - 1;
  EXPECT_THAT(run(sink, options), Fails(ErrorCode::kInvalidArgument, "budget"));
}

TEST_F(TransferTest, ANegativeNumberOfThreadsIsRefused) {
  MemorySink sink(*plan_);
  TransferOptions options;
  options.threads = -1;
  EXPECT_THAT(run(sink, options),
              Fails(ErrorCode::kInvalidArgument, "the number of threads is negative: found -1"));
}

// Blocks are of a fixed size, and a file's head lets each tensor begin at a whole element.
TEST_F(TransferTest, ABlockThatCutsAnElementIsOurMistake) {
  MemorySink sink(*plan_);
  FileCache files(posix_file_system(), 4);
  BlockMaker maker(*plan_, files, sink, 1 << 20);
  EXPECT_THAT(
      maker.make(0, 10, 4),
      Fails(ErrorCode::kInternal, "a block begins or ends inside an element: tensor 'big'"));
}

}  // namespace
}  // namespace shardkit
