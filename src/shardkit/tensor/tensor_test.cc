#include "shardkit/tensor/tensor.h"

#include <gtest/gtest.h>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

// Six floats.
Tensor view(Dims shape, Dims strides, std::int64_t offset = 0) {
  Tensor tensor = testing::float_tensor({6}, {0, 1, 2, 3, 4, 5});
  tensor.shape = std::move(shape);
  tensor.strides = std::move(strides);
  tensor.offset = offset;
  return tensor;
}

TEST(CheckView, EveryElementLiesInTheStorage) {
  EXPECT_THAT(check_view(view({2, 3}, {3, 1})), IsOk());
  EXPECT_THAT(check_view(view({3, 2}, {1, 3})), IsOk());
  EXPECT_THAT(check_view(view({1000}, {0}, 5)), IsOk());
  EXPECT_THAT(check_view(view({2, 3}, {3, 1}, 1)),
              Fails(ErrorCode::kCorrupt,
                    "the view leaves its storage: expected at most 6 elements "
                    "of float32, found shape [2, 3], strides [3, 1], offset 1"));
}

TEST(CheckView, NumbersThatNoTensorHasAreRefused) {
  EXPECT_THAT(check_view(view({-1}, {1})), Fails(ErrorCode::kCorrupt, "a size is negative"));
  EXPECT_THAT(check_view(view({std::int64_t{1} << 62}, {0})),
              Fails(ErrorCode::kCorrupt, "or the element count overflows"));
  EXPECT_THAT(check_view(view({2, 3}, {1})), Fails(ErrorCode::kCorrupt, "the number of strides"));
  EXPECT_THAT(check_view(view({2}, {1}, -1)),
              Fails(ErrorCode::kCorrupt, "the storage offset is negative"));
  EXPECT_THAT(check_view(view({2}, {-1}, 1)), Fails(ErrorCode::kCorrupt, "a stride is negative"));
  EXPECT_THAT(check_view(view({0, 2}, {1, -1})),
              Fails(ErrorCode::kCorrupt, "a stride is negative"));
}

TEST(CheckView, OnlyATensorWithoutElementsNeedsNoStorage) {
  Tensor tensor = view({0}, {1});
  tensor.storage = nullptr;
  EXPECT_THAT(check_view(tensor), IsOk());
  tensor.shape = {1};
  EXPECT_THAT(check_view(tensor), Fails(ErrorCode::kInternal, "a tensor has no storage"));
}

}  // namespace
}  // namespace shardkit
