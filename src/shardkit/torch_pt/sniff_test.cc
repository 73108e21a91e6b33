// Things that people have where a .pt should be.
#include "shardkit/torch_pt/sniff.h"

#include <gtest/gtest.h>

#include <string>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using namespace std::string_view_literals;
using testing::Fails;
using testing::IsOk;

TEST(Sniff, SaysWhatTheFileSeemsToBe) {
  const auto check = [](std::string_view head) { return check_looks_like_pt(head, head.size()); };
  EXPECT_THAT(check("PK\3\4rest"), IsOk());
  EXPECT_THAT(check(""), Fails(ErrorCode::kCorrupt, "the file is empty"));
  EXPECT_THAT(check("\0\0\0\0"sv), Fails(ErrorCode::kCorrupt, "zeros only"));
  EXPECT_THAT(check("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
              Fails(ErrorCode::kCorrupt, "a Git LFS pointer"));
  EXPECT_THAT(check("<!DOCTYPE html>\n<html>"), Fails(ErrorCode::kCorrupt, "an HTML or XML page"));
  EXPECT_THAT(check("\n  <html>"), Fails(ErrorCode::kCorrupt, "an HTML or XML page"));
  EXPECT_THAT(check("{\"error\": \"not found\"}"), Fails(ErrorCode::kCorrupt, "JSON"));
  EXPECT_THAT(check("PK\5\6"), Fails(ErrorCode::kCorrupt, "an empty zip archive"));
  EXPECT_THAT(check("anything"), Fails(ErrorCode::kCorrupt, "found 61 6e 79 74 68 69 6e 67"));
  EXPECT_THAT(check("\x80\x04\x95...."), Fails(ErrorCode::kUnsupported, "a bare pickle"));
  EXPECT_THAT(check("\x1f\x8b\x08"), Fails(ErrorCode::kUnsupported, "compressed with gzip"));
  EXPECT_THAT(check("\x02\0\0\0\0\0\0\0{}"sv), Fails(ErrorCode::kUnsupported, "safetensors"));
  EXPECT_THAT(check(std::string(257, 'x') + "ustar\0"), Fails(ErrorCode::kUnsupported, "tar"));
}

}  // namespace
}  // namespace shardkit
