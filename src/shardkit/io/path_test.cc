#include "shardkit/io/path.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

TEST(Path, Text) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(base_name("a/b/c"), "c");
  EXPECT_EQ(base_name("a/b/c/"), "c");
  EXPECT_EQ(base_name("c"), "c");
  EXPECT_EQ(parent_path("a/b/c"), "a/b");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("a"), "");
}

TEST(Path, WithinIsByWholeComponents) {
  EXPECT_TRUE(is_within("/a/b", "/a"));
  EXPECT_TRUE(is_within("/a", "/a"));
  EXPECT_TRUE(is_within("/a", "/"));
  EXPECT_FALSE(is_within("/ab", "/a"));
  EXPECT_FALSE(is_within("/a", "/a/b"));
}

TEST(Path, ResolvedPathsNameOnePlaceInOneWay) {
  const testing::TempDir dir;
  testing::write_file(dir / "real/x", "");
  std::filesystem::create_directory_symlink("real", dir / "link");
  const std::string real = resolved_path(dir / "real");
  EXPECT_EQ(resolved_path(dir / "link"), real);
  EXPECT_EQ(resolved_path(dir / "link/../real/"), real);
  EXPECT_EQ(resolved_path(dir / "link/not/there"), real + "/not/there");
}

}  // namespace
}  // namespace shardkit
