#include "shardkit/io/equal_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

TEST(FilesAreEqual, ByTheirBytes) {
  const testing::TempDir dir;
  FileSystem& fs = posix_file_system();
  std::string content(3'000'000, 'x');
  testing::write_file(dir / "a", content);
  testing::write_file(dir / "b", content);
  EXPECT_TRUE(files_are_equal(fs, dir / "a", dir / "b").value());
  EXPECT_TRUE(files_are_equal(fs, dir / "a", dir / "a").value());
  content[2'999'999] = 'y';
  testing::write_file(dir / "b", content);
  EXPECT_FALSE(files_are_equal(fs, dir / "a", dir / "b").value());
  content.pop_back();
  testing::write_file(dir / "b", content);
  EXPECT_FALSE(files_are_equal(fs, dir / "a", dir / "b").value());
  EXPECT_THAT(files_are_equal(fs, dir / "a", dir / "none"),
              testing::Fails(ErrorCode::kNotFound, "none"));
}

}  // namespace
}  // namespace shardkit
