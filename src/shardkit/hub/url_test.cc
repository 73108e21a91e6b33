#include "shardkit/hub/url.h"

#include <gtest/gtest.h>

#include "shardkit/testing/matchers.h"

namespace shardkit::hub {
namespace {

using ::shardkit::testing::Fails;
using ::shardkit::testing::IsOk;

TEST(ParseUrl, TakesApartWhatServersGive) {
  const Url url = parse_url("HTTPS://Storage.Example:8443/a%20b/c?X-Sig=1%2F2&n=3#f").value();
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "storage.example");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.target, "/a%20b/c?X-Sig=1%2F2&n=3");
  EXPECT_EQ(url.text(), "https://storage.example:8443/a%20b/c?X-Sig=1%2F2&n=3");
  EXPECT_EQ(url.shown(), "https://storage.example:8443/a%20b/c");
  EXPECT_EQ(parse_url("http://[::1]:80?x").value().text(), "http://[::1]?x");
}

TEST(ParseUrl, RefusesWhatProgramsReadInDifferentWays) {
  for (const char* text :
       {"", "huggingface.co", "ftp://x/", "file:///etc/passwd", "http://", "http://a@b/",
        "https://huggingface.co@evil.example/", "https://evil.example\\@huggingface.co/",
        "http://a b/", "http://a\n/", "http://a:0/", "http://a:65536/", "http://a:8x/",
        "http://a:/", "http://[::1/", "http://[::1]x/", "http://\xc3\xa4/", "http://a/\"",
        "http://a%2eb/"}) {
    EXPECT_THAT(parse_url(text), Fails(ErrorCode::kCorrupt, "no http(s) address")) << text;
  }
  EXPECT_THAT(parse_url("http://a/" + std::string(kLongestUrl, 'x')),
              Fails(ErrorCode::kCorrupt, "too long"));
}

TEST(Url, AnOriginIsSchemeHostAndPort) {
  const Url url = parse_url("https://hub.example/x").value();
  for (const char* same : {"https://hub.example", "https://HUB.example:443/y?z"})
    EXPECT_TRUE(url.has_origin_of(parse_url(same).value())) << same;
  for (const char* other : {"http://hub.example/x", "https://hub.example:444/x",
                            "https://a.hub.example/x", "https://hub.example.evil/x"})
    EXPECT_FALSE(url.has_origin_of(parse_url(other).value())) << other;
}

TEST(Follow, LeadsToPathsAndOtherServersButNotOutOfEncryption) {
  const Url base = parse_url("https://hub.example:8443/a/b?c").value();
  EXPECT_EQ(follow(base, "/d?e").value().text(), "https://hub.example:8443/d?e");
  EXPECT_EQ(follow(base, "https://other.example/d").value().text(), "https://other.example/d");
  EXPECT_THAT(follow(base, "http://hub.example:8443/d"),
              Fails(ErrorCode::kUnsafe, "https to http"));
  EXPECT_THAT(follow(base, "//other.example/d"), Fails(ErrorCode::kCorrupt, "no scheme"));
  EXPECT_THAT(follow(base, "d"), Fails(ErrorCode::kCorrupt, "no scheme"));
  EXPECT_THAT(follow(base, "/d e"), Fails(ErrorCode::kCorrupt, "encoded"));
  const Url plain = parse_url("http://hub.example").value();
  EXPECT_THAT(follow(plain, "http://other.example/"), IsOk());
}

// Python: urllib.parse.quote(text, safe="")
TEST(EncodeComponent, IsPythonsQuote) {
  EXPECT_EQ(encode_component("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(encode_component("a-b_c.d~e 100%\xc3\xa9"), "a-b_c.d~e%20100%25%C3%A9");
}

}  // namespace
}  // namespace shardkit::hub
