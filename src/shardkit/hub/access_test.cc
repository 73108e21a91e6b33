#include "shardkit/hub/access.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <string>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::hub {
namespace {

using ::shardkit::testing::Fails;
using ::shardkit::testing::TempDir;
using ::shardkit::testing::write_file;

Environment variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

Result<Access> access_of(std::map<std::string, std::string> values) {
  return read_access(posix_file_system(), variables(std::move(values)));
}

TEST(ReadAccess, FindsTheTokenInHuggingFacesOrder) {
  const TempDir dir;
  const std::string home = dir.path();
  write_file(dir / "given", "hf_given\n");
  write_file(dir / "hf/token", "hf_home\n");
  write_file(dir / "xdg/huggingface/token", "hf_xdg");
  write_file(dir / ".cache/huggingface/token", " hf_default \r\n");
  std::map<std::string, std::string> all{{"HOME", home},
                                         {"XDG_CACHE_HOME", dir / "xdg"},
                                         {"HF_HOME", "~/hf"},
                                         {"HF_TOKEN_PATH", dir / "given"},
                                         {"HF_TOKEN", "hf_variable"}};
  const auto header = [&] { return access_of(all).value().token.header(); };
  const auto source = [&] { return access_of(all).value().token.source(); };
  EXPECT_EQ(header(), "Authorization: Bearer hf_variable");
  EXPECT_EQ(source(), "HF_TOKEN");
  all["HF_TOKEN"] = " \n";
  EXPECT_EQ(header(), "Authorization: Bearer hf_given");
  EXPECT_EQ(source(), "the file '" + (dir / "given") + "'");
  all.erase("HF_TOKEN_PATH");
  EXPECT_EQ(header(), "Authorization: Bearer hf_home");
  all.erase("HF_HOME");
  EXPECT_EQ(header(), "Authorization: Bearer hf_xdg");
  all.erase("XDG_CACHE_HOME");
  EXPECT_EQ(header(), "Authorization: Bearer hf_default");
}

TEST(ReadAccess, SaysWhereItLookedForATokenAndNeverTellsOne) {
  const TempDir dir;
  EXPECT_THAT(access_of({{"HOME", dir.path()}}),
              Fails(ErrorCode::kInvalidArgument, dir / ".cache/huggingface/token"));
  const auto broken = access_of({{"HF_TOKEN", "hf_secret\r\nX-Evil: 1"}});
  EXPECT_THAT(broken, Fails(ErrorCode::kInvalidArgument, "HF_TOKEN holds is no token"));
  EXPECT_EQ(broken.error().message().find("secret"), std::string::npos);
}

/// A server's text may be as long as an answer: replaced one by one, this would take minutes.
TEST(Token, IsRedactedHoweverOftenItIsRepeated) {
  const Token token = Token::make("hf_secret", "HF_TOKEN").value();
  constexpr std::size_t kTimes = 900'000;
  std::string text, expected = "-";
  for (std::size_t i = 0; i < kTimes; ++i) text += "hf_secret";
  for (std::size_t i = 0; i < kTimes; ++i) expected += "***";
  EXPECT_TRUE(token.redact("-" + text + "hf_secre") == expected + "hf_secre");
}

TEST(Token, IsRedactedInAllTextsOfAnError) {
  const Token token = Token::make("hf_secret", "HF_TOKEN").value();
  const Error error = token.redact(Error(ErrorCode::kIo, "no hf_secret")
                                       .in_file("/hf_secret")
                                       .at_offset(7)
                                       .expected("hf_secret or so")
                                       .found("hf_secret")
                                       .from_system(EIO));
  EXPECT_EQ(error.code(), ErrorCode::kIo);
  EXPECT_EQ(error.what(), "no ***");
  EXPECT_EQ(error.file(), "/***");
  EXPECT_EQ(error.offset(), 7u);
  EXPECT_EQ(error.expected_text(), "*** or so");
  EXPECT_EQ(error.found_text(), "***");
  EXPECT_EQ(error.system_number(), EIO);
}

TEST(ReadAccess, TheEndpointIsTheVariablesOrThePublicHub) {
  EXPECT_EQ(access_of({{"HF_TOKEN", "t"}}).value().endpoint.text(), "https://huggingface.co");
  EXPECT_EQ(
      access_of({{"HF_TOKEN", "t"}, {"HF_ENDPOINT", "http://h:8/m//"}}).value().endpoint.text(),
      "http://h:8/m");
  for (const char* bad : {"huggingface.co", "https://u:p@h", "https://h?x", "ftp://h"})
    EXPECT_THAT(access_of({{"HF_TOKEN", "t"}, {"HF_ENDPOINT", bad}}),
                Fails(ErrorCode::kInvalidArgument, "HF_ENDPOINT"))
        << bad;
}

TEST(Token, IsReplacedInTexts) {
  const Token token = Token::make("hf_x", "HF_TOKEN").value();
  EXPECT_EQ(token.redact("a hf_x b hf_xhf_x"), "a *** b ******");
  EXPECT_EQ(Token::make("*", "HF_TOKEN").value().redact("**"), "******");
}

}  // namespace
}  // namespace shardkit::hub
