// What is sent: Base64, digests, and the body of a commit.
#include <gtest/gtest.h>

#include "shardkit/hub/base64.h"
#include "shardkit/hub/commit_body.h"
#include "shardkit/hub/digest.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::hub {
namespace {

using ::shardkit::testing::Fails;
using ::shardkit::testing::TempDir;
using ::shardkit::testing::write_file;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// RFC 4648, section 10.
TEST(Base64, IsTheRfcs) {
  for (const auto& [text, encoded] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"},
                                                        {"\xff\xfe\xfd", "//79"}}) {
    EXPECT_EQ(base64(bytes_of(text)), encoded);
    EXPECT_EQ(base64_size(text.size()), encoded.size());
  }
}

// FIPS 180-2, appendices A and B.
TEST(Digest, IsTheStandards) {
  const std::string text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  Digest sha256 = Digest::make(Digest::Kind::kSha256).value();
  sha256.add(bytes_of(text).first(10));
  sha256.add(bytes_of(text).subspan(10));
  EXPECT_EQ(sha256.finish().value(),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  Digest sha1 = Digest::make(Digest::Kind::kSha1).value();
  sha1.add(bytes_of(text));
  EXPECT_EQ(sha1.finish().value(), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
}

class CommitBodyTest : public ::testing::Test {
 protected:
  std::string read(CommitBody& body, std::size_t step) {
    std::string text(static_cast<std::size_t>(body.size()), '\0');
    const auto all = std::as_writable_bytes(std::span(text));
    for (std::size_t at = 0; at < text.size(); at += step)
      body.read(at, all.subspan(at, std::min(step, text.size() - at))).value();
    return text;
  }

  TempDir dir_;
};

// The lines that huggingface_hub 2.4's _prepare_commit_payload makes of these, without the spaces
// that Python's json.dumps puts in.
TEST_F(CommitBodyTest, IsALineForEachFile) {
  write_file(dir_ / "a \"b\".txt", "hello");
  write_file(dir_ / "empty", "");
  CommitBody body(posix_file_system(), dir_.path(), "Title\nmore\nlines",
                  {{"a \"b\".txt", 5, ""}, {"m.safetensors", 7, "abc"}, {"empty", 0, ""}});
  const std::string expected =
      "{\"key\":\"header\",\"value\":{\"summary\":\"Title\",\"description\":\"more\\nlines\"}}\n"
      "{\"key\":\"file\",\"value\":{\"content\":\"aGVsbG8=\",\"path\":\"a "
      "\\\"b\\\".txt\",\"encoding\":\"base64\"}}\n"
      "{\"key\":\"lfsFile\",\"value\":{\"path\":\"m.safetensors\",\"algo\":\"sha256\",\"oid\":"
      "\"abc\",\"size\":7}}\n"
      "{\"key\":\"file\",\"value\":{\"content\":\"\",\"path\":\"empty\",\"encoding\":\"base64\"}}"
      "\n";
  EXPECT_EQ(body.size(), expected.size());
  for (const std::size_t step : {1u, 2u, 3u, 4u, 5u, 7u, 64u, 10000u})
    EXPECT_EQ(read(body, step), expected) << step;
}

TEST_F(CommitBodyTest, AFileOfAnotherSizeIsNotSent) {
  write_file(dir_ / "a", "hello");
  CommitBody body(posix_file_system(), dir_.path(), "Title", {{"a", 4, ""}});
  std::vector<std::byte> all(static_cast<std::size_t>(body.size()));
  EXPECT_THAT(body.read(0, all), Fails(ErrorCode::kIo, "changed while it was uploaded"));
}

}  // namespace
}  // namespace shardkit::hub
