// Tests of json::parse and read_events: what is taken, and each thing that is refused.
#include "shardkit/json/parse.h"

#include <cmath>
#include <limits>

#include "shardkit/json/events.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::json {
namespace {

using ::testing::AllOf;
using testing::Fails;
using testing::IsOk;

TEST(JsonParse, KeepsOrderKindsAndEscapes) {
  const auto document =
      parse(" {\"z\": [1, -2, 0.5, \"a\\u00e9\\ud83d\\ude00\\n\"], \"a\": null}\n");
  ASSERT_THAT(document, IsOk());
  const auto* object = document->get_if<Object>();
  ASSERT_NE(object, nullptr);
  ASSERT_EQ(object->members.size(), 2u);
  EXPECT_EQ(object->members[0].first, "z");
  EXPECT_EQ(object->members[1].first, "a");
  EXPECT_TRUE(document->find("a")->is_null());
  EXPECT_EQ(document->find("b"), nullptr);
  const auto& items = document->find("z")->get_if<Array>()->items;
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(*items[0].get_if<std::int64_t>(), 1);
  EXPECT_EQ(*items[1].get_if<std::int64_t>(), -2);
  EXPECT_EQ(*items[2].get_if<double>(), 0.5);
  EXPECT_EQ(*items[3].get_if<std::string>(), "a\xC3\xA9\xF0\x9F\x98\x80\n");
}

TEST(JsonParse, KeepsIntegersExactly) {
  EXPECT_EQ(*parse("9223372036854775807")->get_if<std::int64_t>(),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(*parse("-9223372036854775808")->get_if<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*parse("9223372036854775808")->get_if<std::uint64_t>(), 9223372036854775808u);
  EXPECT_EQ(*parse("18446744073709551615")->get_if<std::uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(parse("18446744073709551615")->as_int64(), std::nullopt);
  EXPECT_EQ(parse("-1")->as_uint64(), std::nullopt);
  EXPECT_EQ(parse("7")->as_uint64(), 7u);
  EXPECT_EQ(parse("7.0")->as_int64(), std::nullopt);
}

TEST(JsonParse, RefusesIntegersThatDoNotFit) {
  EXPECT_THAT(parse("[1, 18446744073709551616]"),
              AllOf(Fails(ErrorCode::kLimit, "the integer 18446744073709551616 needs more than 64"),
                    Fails(ErrorCode::kLimit, "offset 4")));
  EXPECT_THAT(parse("-9223372036854775809"), Fails(ErrorCode::kLimit, "64 bits"));
  EXPECT_THAT(parse("1e999"), Fails(ErrorCode::kLimit, "number overflow"));
  EXPECT_THAT(parse("[2.0e400]"), Fails(ErrorCode::kLimit, "number overflow"));
}

TEST(JsonParse, RefusesNamesThatComeTwice) {
  EXPECT_THAT(parse(R"({"a":1,"b":{"a":1},"a":2})"),
              AllOf(Fails(ErrorCode::kCorrupt, "the JSON name 'a' comes twice"),
                    Fails(ErrorCode::kCorrupt, "offset 19")));
  // The same name, spelled with an escape; quotes inside it do not mislead the offset.
  EXPECT_THAT(parse(R"({"\"\\":1, "\u0022\\":2})"), Fails(ErrorCode::kCorrupt, "offset 11"));
  EXPECT_THAT(parse(R"({"a":1,"b":[{"a":1},{"a":1}]})"), IsOk());
}

TEST(JsonParse, RefusesWhatIsNoJson) {
  for (const char* text : {"",        " ",         "{",     "[1,]",     "{\"a\":1,}", "{\"a\" 1}",
                           "{a:1}",   "'a'",       "nul",   "01",       "+1",         ".5",
                           "1.",      "1e",        "[1] 2", "{}{}",     "\"a\nb\"",   "\"\\x\"",
                           "// c\n1", "/* c */ 1", "NaN",   "Infinity", "-Infinity"})
    EXPECT_THAT(parse(text), Fails(ErrorCode::kCorrupt, "not valid JSON")) << text;
  EXPECT_THAT(parse("[1, x]"), Fails(ErrorCode::kCorrupt, "offset 4"));
}

TEST(JsonParse, RefusesBytesThatHide) {
  EXPECT_THAT(parse("\xEF\xBB\xBF{}"), Fails(ErrorCode::kCorrupt, "byte order mark"));
  EXPECT_THAT(parse(std::string_view("{}\0{", 4)),
              Fails(ErrorCode::kCorrupt, "NUL byte: offset 2"));
  EXPECT_THAT(parse(std::string_view("\0", 1)), Fails(ErrorCode::kCorrupt, "NUL"));
}

TEST(JsonParse, RefusesBadUtf8) {
  for (const char* text : {"\"\xC3\"", "\"\xC3(\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xFF\"",
                           "\"\xF4\x90\x80\x80\"", "\"\xE0\x80\x80\"", "\"\\ud800\"",
                           "\"\\ud800\\u0041\"", "\"\\udc00\""})
    EXPECT_THAT(parse(text), Fails(ErrorCode::kCorrupt, "not valid JSON")) << text;
  EXPECT_THAT(parse("\"\\u0000\""), IsOk());
}

TEST(JsonParse, HoldsTheDepthLimit) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_THAT(parse(nested(100)), IsOk());
  EXPECT_THAT(parse(nested(101)), Fails(ErrorCode::kLimit, "deeper than 100 levels"));
  EXPECT_THAT(parse(std::string(1'000'000, '[')), Fails(ErrorCode::kLimit, "deeper"));
  EXPECT_THAT(parse("[[1]]", {.depth = 1}), Fails(ErrorCode::kLimit, "offset 1"));
}

TEST(JsonParse, HoldsTheSizeLimit) {
  EXPECT_THAT(parse("[1,2]", {.bytes = 5}), IsOk());
  EXPECT_THAT(parse("[1,2]", {.bytes = 4}), Fails(ErrorCode::kLimit, "5 bytes, more than 4"));
}

TEST(JsonParse, AddsTheOffsetOfTheText) {
  EXPECT_THAT(parse("[1, x]", {.text_offset = 100}), Fails(ErrorCode::kCorrupt, "offset 104"));
  EXPECT_THAT(parse(R"({"a":1,"a":1})", {.text_offset = 8}),
              Fails(ErrorCode::kCorrupt, "offset 15"));
}

TEST(JsonParse, TakesPythonsNumbersOnRequest) {
  const auto document = parse(
      R"({"NaN": [NaN, 0.0, Infinity, 0.000000, -Infinity , -0.000000], "s": "Infinity \"NaN"})",
      {.python_numbers = true});
  ASSERT_THAT(document, IsOk());
  const auto& items = document->find("NaN")->get_if<Array>()->items;
  ASSERT_EQ(items.size(), 6u);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(*items[0].get_if<double>()));
  EXPECT_EQ(*items[1].get_if<double>(), 0);
  EXPECT_EQ(*items[2].get_if<double>(), kInf);
  EXPECT_EQ(*items[3].get_if<double>(), 0);
  EXPECT_EQ(*items[4].get_if<double>(), -kInf);
  EXPECT_EQ(*items[5].get_if<double>(), 0);
  EXPECT_EQ(*document->find("s")->get_if<std::string>(), "Infinity \"NaN");

  EXPECT_EQ(*parse("Infinity", {.python_numbers = true})->get_if<double>(), kInf);
  EXPECT_EQ(*parse("-Infinity\n", {.python_numbers = true})->get_if<double>(), -kInf);
  EXPECT_TRUE(std::isnan(
      *parse("[NaN]", {.python_numbers = true})->get_if<Array>()->items[0].get_if<double>()));
  for (const char* text : {"-NaN", "NaNa", "[NaN1]", "Infinity0", "--Infinity", "nan", "[1NaN]"})
    EXPECT_THAT(parse(text, {.python_numbers = true}), Fails(ErrorCode::kCorrupt, "not valid"))
        << text;
}

}  // namespace
}  // namespace shardkit::json
