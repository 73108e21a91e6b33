#include "shardkit/state/state_path.h"

#include <gtest/gtest.h>

namespace shardkit {
namespace {

// What Python 3 prints of the same tuples.
TEST(StatePath, TupleTextIsPythons) {
  EXPECT_EQ(tuple_text({{"a", "b"}}), "('a', 'b')");
  EXPECT_EQ(tuple_text({{"a', 'b"}}), R"(("a', 'b",))");
  EXPECT_EQ(tuple_text({{R"(it's "so")"}}), R"(('it\'s "so"',))");
  EXPECT_EQ(tuple_text({{"back\\slash\n"}}), R"(('back\\slash\n',))");
  EXPECT_EQ(tuple_text({{"tab\t\r\x01\x7f", std::int64_t{0}}}), R"(('tab\t\r\x01\x7f', 0))");
  EXPECT_EQ(tuple_text({{"\u00e9"}}), "('\u00e9',)");
  EXPECT_EQ(tuple_text({}), "()");
}

}  // namespace
}  // namespace shardkit
