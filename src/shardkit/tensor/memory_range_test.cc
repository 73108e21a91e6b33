#include "shardkit/tensor/memory_range.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace shardkit {
namespace {

class MemoryRangeTest : public ::testing::Test {
 protected:
  Tensor view(Dims shape, Dims strides, std::int64_t offset) const {
    return {DType::kInt16, std::move(shape), std::move(strides), offset, storage_};
  }
  std::uintptr_t at(std::uintptr_t byte) const {
    return reinterpret_cast<std::uintptr_t>(data_->data()) + byte;
  }

  std::shared_ptr<std::vector<std::byte>> data_ = std::make_shared<std::vector<std::byte>>(200);
  std::shared_ptr<const Storage> storage_ =
      std::make_shared<const Storage>(MemoryBlock{data_, data_->data()}, 200);
};

TEST_F(MemoryRangeTest, FromTheFirstByteToBehindTheLast) {
  const MemoryRange range = memory_range(view({3, 2}, {10, 4}, 5));
  EXPECT_EQ(range.begin, at(10));
  EXPECT_EQ(range.end, at(10 + 2 * (20 + 4 + 1)));
  const MemoryRange scalar = memory_range(view({}, {}, 7));
  EXPECT_EQ(scalar.end - scalar.begin, 2u);
  const MemoryRange empty = memory_range(view({3, 0}, {1, 1}, 5));
  EXPECT_EQ(empty.begin, empty.end);
}

TEST_F(MemoryRangeTest, ElementsWithPlacesOfTheirOwn) {
  EXPECT_TRUE(has_own_places(view({3, 2}, {2, 1}, 0)));
  EXPECT_TRUE(has_own_places(view({3, 2}, {1, 3}, 0)));  // transposed
  EXPECT_TRUE(has_own_places(view({3, 1}, {1, 0}, 0)));  // a stride that is never used
  EXPECT_TRUE(has_own_places(view({3, 0}, {0, 0}, 0)));  // nothing
  EXPECT_TRUE(has_own_places(view({}, {}, 0)));
  EXPECT_FALSE(has_own_places(view({3, 2}, {0, 1}, 0)));  // expanded
  EXPECT_FALSE(has_own_places(view({5, 3}, {1, 1}, 0)));  // unfolded
}

TEST_F(MemoryRangeTest, TiesAreTheSameViewAsTheFirst) {
  const std::vector<Tensor> views = {
      view({2, 2}, {2, 1}, 4), view({2, 2}, {1, 2}, 4), view({2, 2}, {2, 1}, 4),
      view({2}, {1}, 4),       view({2, 2}, {1, 2}, 4), view({2, 2}, {2, 1}, 4),
      view({2, 2}, {2, 1}, 6), view({0}, {1}, 4),       view({0}, {1}, 4)};
  std::vector<const Tensor*> tensors;
  for (const Tensor& each : views) tensors.push_back(&each);
  std::vector<std::optional<std::size_t>> expected(views.size());
  expected[2] = expected[5] = 0;
  expected[4] = 1;
  EXPECT_EQ(find_ties(tensors), expected);
  const auto other_memory = std::make_shared<std::vector<std::byte>>(200);
  Tensor elsewhere = views[0];
  elsewhere.storage =
      std::make_shared<const Storage>(MemoryBlock{other_memory, other_memory->data()}, 200);
  EXPECT_FALSE(is_same_view(views[0], elsewhere));
}

TEST_F(MemoryRangeTest, RangesThatMeetAnother) {
  const MemoryRanges ranges({{100, 300}, {120, 130}, {5, 5}, {400, 410}});
  EXPECT_TRUE(ranges.overlap({0, 101}));
  EXPECT_TRUE(ranges.overlap({200, 210}));  // in the first, though the second ended before
  EXPECT_TRUE(ranges.overlap({299, 1000}));
  EXPECT_TRUE(ranges.overlap({405, 406}));
  EXPECT_FALSE(ranges.overlap({0, 100}));
  EXPECT_FALSE(ranges.overlap({300, 400}));
  EXPECT_FALSE(ranges.overlap({410, 500}));
  EXPECT_FALSE(ranges.overlap({150, 150}));
  EXPECT_FALSE(MemoryRanges({}).overlap({0, 1}));
}

}  // namespace
}  // namespace shardkit
