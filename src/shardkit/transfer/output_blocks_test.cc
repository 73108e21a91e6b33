#include "shardkit/transfer/output_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace shardkit {
namespace {

std::vector<PlannedFile> files_of(const std::vector<std::uint64_t>& sizes) {
  std::vector<PlannedFile> files;
  for (const std::uint64_t bytes : sizes) {
    files.emplace_back();
    files.back().bytes = bytes;
  }
  return files;
}

TEST(OutputBlocks, AreNumberedThrough) {
  const OutputBlocks blocks(files_of({kBlockBytes + 1, 5, 2 * kBlockBytes}));
  EXPECT_EQ(blocks.count(), 5u);
  EXPECT_EQ(blocks.at(1).file, 0u);
  EXPECT_EQ(blocks.at(1).offset, kBlockBytes);
  EXPECT_EQ(blocks.at(2).file, 1u);
  EXPECT_EQ(blocks.at(4).file, 2u);
  EXPECT_EQ(blocks.at(4).offset, kBlockBytes);
  const BlockRange of_last = blocks.of_file(2, {1, 4});
  EXPECT_EQ(of_last.begin, 3u);
  EXPECT_EQ(of_last.end, 4u);
  const BlockRange none = blocks.of_file(0, {3, 5});
  EXPECT_EQ(none.begin, none.end);
}

TEST(OutputBlocks, SharesFollowOneAnotherAndAreOfEqualBytes) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t i = 0; i < 100; ++i) sizes.push_back(i % 3 == 0 ? 10 : i * 1'000'003);
  const auto files = files_of(sizes);
  const OutputBlocks blocks(files);
  std::uint64_t all = 0;
  for (const std::uint64_t bytes : sizes) all += bytes;
  for (const int shares : {1, 2, 3, 7, 64, 5000}) {
    std::uint64_t end = 0;
    for (int share = 0; share < shares; ++share) {
      const BlockRange range = blocks.share(share, shares);
      ASSERT_EQ(range.begin, end);
      ASSERT_GE(range.end, range.begin);
      end = range.end;
      std::uint64_t bytes = 0;
      for (std::uint64_t block = range.begin; block < range.end; ++block) {
        const auto [file, offset] = blocks.at(block);
        bytes += std::min<std::uint64_t>(kBlockBytes, sizes[file] - offset);
      }
      EXPECT_LE(bytes, all / static_cast<std::uint64_t>(shares) + kBlockBytes + 1);
    }
    EXPECT_EQ(end, blocks.count());
  }
}

TEST(OutputBlocks, SharesOfVeryLargeOutput) {
  const OutputBlocks blocks(files_of({std::uint64_t{1} << 50}));
  constexpr int kShares = 1 << 20;
  EXPECT_EQ(blocks.count(), std::uint64_t{1} << 27);
  EXPECT_EQ(blocks.share(kShares - 1, kShares).end, blocks.count());
  EXPECT_EQ(blocks.share(kShares / 2, kShares).begin, blocks.count() / 2);
}

}  // namespace
}  // namespace shardkit
