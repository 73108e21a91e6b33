#include "shardkit/base/random_number.h"

#include <gtest/gtest.h>

#include <set>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

TEST(RandomNumber, NoneComesTwice) {
  std::set<std::uint64_t> numbers;
  for (int i = 0; i < 100; ++i) {
    const auto number = random_number();
    ASSERT_THAT(number, testing::IsOk());
    EXPECT_TRUE(numbers.insert(*number).second);
  }
}

}  // namespace
}  // namespace shardkit
