// Tests of json::write against the text of Python's json module.
#include "shardkit/json/write.h"

#include <limits>

#include "shardkit/json/parse.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::json {
namespace {

std::string golden(const std::string& name) {
  return testing::read_file(testing::source_path("src/shardkit/json/testdata/" + name));
}

TEST(JsonWrite, PrettyIsPythonsDefaultWithIndent2) {
  const auto document = parse(golden("sample.json"));
  ASSERT_THAT(document, testing::IsOk());
  EXPECT_EQ(write(*document, WriteStyle::kPretty), golden("sample.pretty.json"));
}

TEST(JsonWrite, CompactIsPythonsWithoutSpacesAndEscapes) {
  const auto document = parse(golden("sample.json"));
  ASSERT_THAT(document, testing::IsOk());
  EXPECT_EQ(write(*document, WriteStyle::kCompact), golden("sample.compact.json"));
}

TEST(JsonWrite, IsAlwaysJson) {
  Array array;
  array.items = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
                 "a\xFF"
                 "b"};
  EXPECT_EQ(write(array, WriteStyle::kCompact),
            "[null,null,\"a\xEF\xBF\xBD"
            "b\"]");
  EXPECT_EQ(write(array, WriteStyle::kPretty), "[\n  null,\n  null,\n  \"a\\ufffdb\"\n]");
}

TEST(JsonValue, TakesEveryKindOfInteger) {
  Array array;
  array.items = {1, -2L, 3u, 4ull, short{5}, true, 6.5, "7"};
  EXPECT_EQ(write(array, WriteStyle::kCompact), "[1,-2,3,4,5,true,6.5,\"7\"]");
}

TEST(JsonValue, NamesItsKinds) {
  EXPECT_EQ(kind_name(Value()), "null");
  EXPECT_EQ(kind_name(true), "boolean");
  EXPECT_EQ(kind_name(1u), "integer");
  EXPECT_EQ(kind_name(1.5), "number");
  EXPECT_EQ(kind_name("x"), "string");
  EXPECT_EQ(kind_name(Array{}), "array");
  EXPECT_EQ(kind_name(Object{}), "object");
}

}  // namespace
}  // namespace shardkit::json
