#include "shardkit/io/file_cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

TEST(FileCache, KeepsFewFilesOpen) {
  const testing::TempDir dir;
  for (int i = 0; i < 50; ++i) testing::write_file(dir / std::to_string(i), std::to_string(i));
  const std::size_t before = open_descriptors();
  FileCache cache(posix_file_system(), 4);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 50; ++i) {
      const auto file = cache.open(dir / std::to_string(i)).value();
      EXPECT_EQ(file->size(), std::to_string(i).size());
    }
  }
  EXPECT_EQ(open_descriptors(), before + 4);
}

TEST(FileCache, AnOpenFileIsFoundAgainAndOutlivesItsPlace) {
  const testing::TempDir dir;
  testing::write_file(dir / "a", "a");
  testing::write_file(dir / "b", "b");
  FileCache cache(posix_file_system(), 1);
  const auto first = cache.open(dir / "a").value();
  EXPECT_EQ(cache.open(dir / "a").value(), first);
  ASSERT_THAT(cache.open(dir / "b"), testing::IsOk());
  std::string text(1, '?');
  ASSERT_THAT(first->read_at(0, std::as_writable_bytes(std::span(text))), testing::IsOk());
  EXPECT_EQ(text, "a");
  EXPECT_THAT(cache.open(dir / "c"), testing::Fails(ErrorCode::kNotFound, "c"));
}

}  // namespace
}  // namespace shardkit
