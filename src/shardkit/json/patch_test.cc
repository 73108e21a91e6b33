// Tests of json::replace_member: one value changes, every other byte stays.
#include "shardkit/json/patch.h"

#include "shardkit/testing/matchers.h"

namespace shardkit::json {
namespace {

using testing::Fails;
using testing::IsOk;

std::string replaced(std::string_view text, std::string_view key, std::string_view value) {
  auto result = replace_member(text, key, value);
  EXPECT_THAT(result, IsOk());
  return result.ok() ? *result : std::string();
}

TEST(JsonPatch, ReplacesEveryKindOfValue) {
  for (const char* old : {"\"float32\"", "null", "1", "-1.5e3", "[1, [\"]\"], 2]", "true",
                          "{\"a\": {\"}\": 1}, \"b\": \"\\\"\"}", "\"\"", "NaN", "-Infinity"}) {
    const std::string text = "\n{ \"x\":[1],\t\"k\"  : " + std::string(old) + " ,\"z\":{} }\r\n";
    EXPECT_EQ(replaced(text, "k", "\"bf\""), "\n{ \"x\":[1],\t\"k\"  : \"bf\" ,\"z\":{} }\r\n")
        << old;
  }
  EXPECT_EQ(replaced("{\"k\":1}", "k", "22"), "{\"k\":22}");
  EXPECT_EQ(replaced("{\"k\":1,\"l\":2}", "l", "[]"), "{\"k\":1,\"l\":[]}");
}

TEST(JsonPatch, TouchesTheTopLevelOnly) {
  const std::string text =
      R"({"text": {"k": 1}, "list": [{"k": 2}], "s": "\"k\": 3", "\u006b": 4, "K": 5})";
  EXPECT_EQ(replaced(text, "k", "9"),
            R"({"text": {"k": 1}, "list": [{"k": 2}], "s": "\"k\": 3", "\u006b": 9, "K": 5})");
}

TEST(JsonPatch, Refuses) {
  EXPECT_THAT(replace_member(R"({"a": {"k": 1}})", "k", "1"),
              Fails(ErrorCode::kNotFound, "no member 'k'"));
  EXPECT_THAT(replace_member("{}", "k", "1"), Fails(ErrorCode::kNotFound, "no member"));
  EXPECT_THAT(replace_member("[1]", "k", "1"), Fails(ErrorCode::kCorrupt, "found array"));
  EXPECT_THAT(replace_member("{\"k\":1", "k", "1"), Fails(ErrorCode::kCorrupt, "not valid JSON"));
  EXPECT_THAT(replace_member("{\"k\":1,\"k\":2}", "k", "1"), Fails(ErrorCode::kCorrupt, "twice"));
  EXPECT_THAT(replace_member("{\"k\":1}", "k", "1, 2"),
              Fails(ErrorCode::kInvalidArgument, "the new value is no JSON"));
}

}  // namespace
}  // namespace shardkit::json
