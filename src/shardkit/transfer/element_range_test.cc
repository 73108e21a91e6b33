#include "shardkit/transfer/element_range.h"

#include <gtest/gtest.h>

#include "shardkit/base/checked_math.h"

namespace shardkit {
namespace {

// Every range of several small shapes: the boxes list its elements once each, in order.
TEST(ElementRange, BoxesListTheElementsInOrder) {
  for (const Dims& shape :
       {Dims{}, Dims{7}, Dims{3, 4}, Dims{2, 3, 4}, Dims{3, 1, 2}, Dims{1, 5}}) {
    const std::int64_t elements = *element_count(shape);
    const Dims strides = contiguous_strides(shape);
    for (std::int64_t begin = 0; begin <= elements; ++begin) {
      for (std::int64_t end = begin; end <= elements; ++end) {
        std::int64_t next = begin;
        for (const Box& box : boxes_of_range(shape, begin, end)) {
          ASSERT_TRUE(lies_inside(box, shape));
          ASSERT_EQ(position_of(box.offset, strides), next);
          next += *element_count(box.shape);
          Dims last = box.offset;
          for (std::size_t d = 0; d < last.size(); ++d) last[d] += box.shape[d] - 1;
          ASSERT_EQ(position_of(last, strides), next - 1) << "a box is no run";
        }
        ASSERT_EQ(next, end);
      }
    }
  }
}

TEST(ElementRange, FewBoxes) {
  EXPECT_EQ(boxes_of_range({4, 5}, 0, 20), (std::vector<Box>{{{0, 0}, {4, 5}}}));
  EXPECT_EQ(boxes_of_range({4, 5}, 3, 18),
            (std::vector<Box>{{{0, 3}, {1, 2}}, {{1, 0}, {2, 5}}, {{3, 0}, {1, 3}}}));
}

TEST(ElementRange, IndexAtIsTheInverse) {
  const Dims shape{3, 4, 2};
  for (std::int64_t i = 0; i < 24; ++i)
    EXPECT_EQ(position_of(index_at(shape, i), contiguous_strides(shape)), i);
}

TEST(ElementRange, RangesEndWhereRowsEnd) {
  EXPECT_EQ(round_range_end({100, 10}, 0, 1000, 64), 60);
  EXPECT_EQ(round_range_end({100, 10}, 60, 1000, 64), 120);
  EXPECT_EQ(round_range_end({100, 10}, 0, 50, 64), 50);
  EXPECT_EQ(round_range_end({2, 1000}, 0, 2000, 64), 64) << "rows longer than the target are cut";
  EXPECT_EQ(round_range_end({8, 10, 10}, 0, 800, 350), 300);
}

}  // namespace
}  // namespace shardkit
