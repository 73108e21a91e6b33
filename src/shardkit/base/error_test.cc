#include "shardkit/base/error.h"

#include <gtest/gtest.h>

#include "shardkit/base/result.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(Error, MessageHoldsEveryPartOfThePlace) {
  const Error error = Error(ErrorCode::kCorrupt, "the view leaves its storage")
                          .expected("at most 12 elements")
                          .found("13")
                          .of_tensor("lm_head.weight")
                          .in_file("model.pt")
                          .at_offset(64);
  EXPECT_EQ(error.message(),
            "the view leaves its storage: tensor 'lm_head.weight', expected at most 12 elements, "
            "found 13, file 'model.pt', offset 64");
}

TEST(Error, ThePlaceThatWasSetFirstIsKept) {
  const Error error = Error(ErrorCode::kIo, "cannot read").in_file("inner").in_file("outer");
  EXPECT_EQ(error.file(), "inner");
}

TEST(Error, ADetailIsForProgramsAndNotInTheMessage) {
  const Error plain(ErrorCode::kInvalidArgument, "no");
  EXPECT_FALSE(plain.companion_mismatch());
  const Error error = Error(plain).with_detail(CompanionMismatch{"a.0"});
  ASSERT_TRUE(error.companion_mismatch());
  EXPECT_EQ(error.companion_mismatch()->path, "a.0");
  EXPECT_EQ(error.message(), "no");
}

Result<int> half(int n) {
  if (n % 2 != 0) return Error(ErrorCode::kInvalidArgument, "odd");
  return n / 2;
}

Result<int> quarter(int n) {
  SHARDKIT_ASSIGN(const int h, half(n));
  SHARDKIT_TRY(half(h));
  return half(h);
}

TEST(Result, MacrosPassErrorsOn) {
  EXPECT_THAT(quarter(8), IsOk());
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_THAT(quarter(6), Fails(ErrorCode::kInvalidArgument, "odd"));
  EXPECT_THROW(quarter(3).value(), std::runtime_error);
}

}  // namespace
}  // namespace shardkit
