// strided_copy: random views of every element size, against one memcpy for each element.
#include "shardkit/tensor/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "shardkit/base/checked_math.h"

namespace shardkit {
namespace {

// One past the last element that a view reaches.
std::int64_t extent(const Dims& shape, const Dims& strides) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
  return last + 1;
}

std::vector<std::byte> numbered_bytes(std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + i / 256 * 7) & 0xFF);
  return bytes;
}

// Copies both ways into buffers with canaries and compares every byte.
void check(std::int64_t item, const Dims& shape, const Dims& src_strides, const Dims& dst_strides) {
  SCOPED_TRACE(::testing::Message() << item << " bytes, " << to_string(shape) << " from "
                                    << to_string(src_strides) << " to " << to_string(dst_strides));
  const std::int64_t count = element_count(shape).value();
  const std::int64_t src_extent = count == 0 ? 0 : extent(shape, src_strides);
  const std::int64_t dst_extent = count == 0 ? 0 : extent(shape, dst_strides);
  constexpr std::size_t kShift = 1;  // nothing is aligned
  auto src = numbered_bytes(src_extent * item + 1);
  std::vector<std::byte> dst(static_cast<std::size_t>(dst_extent * item) + 2, std::byte{0xC3});
  std::vector<std::byte> expected = dst;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t from = 0;
    std::int64_t to = 0;
    for (std::size_t d = shape.size(); d-- > 0;) {
      from += rest % shape[d] * src_strides[d];
      to += rest % shape[d] * dst_strides[d];
      rest /= shape[d];
    }
    std::memcpy(expected.data() + kShift + to * item, src.data() + kShift + from * item,
                static_cast<std::size_t>(item));
  }
  strided_copy(item, shape, src.data() + kShift, src_strides, dst.data() + kShift, dst_strides);
  EXPECT_TRUE(dst == expected);
}

// Strides that lay the dimensions out in the given order, innermost last, with gaps.
Dims strides_of(const Dims& shape, const std::vector<std::size_t>& order, std::int64_t gap) {
  Dims strides(shape.size(), 0);
  std::int64_t step = 1 + gap;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step = step * std::max<std::int64_t>(shape[order[i]], 1) + gap;
  }
  return strides;
}

TEST(StridedCopy, RandomViews) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 4000; ++round) {
    const auto dims = static_cast<std::size_t>(below(6));
    Dims shape(dims, 0);
    for (std::int64_t& size : shape) size = below(20) == 0 ? 0 : 1 + below(dims < 3 ? 40 : 7);
    std::vector<std::size_t> src_order(dims);
    std::iota(src_order.begin(), src_order.end(), 0);
    std::vector<std::size_t> dst_order = src_order;
    if (below(2) == 0) std::shuffle(src_order.begin(), src_order.end(), random);
    if (below(2) == 0) std::shuffle(dst_order.begin(), dst_order.end(), random);
    Dims src_strides = strides_of(shape, src_order, below(3));
    if (dims > 0 && below(4) == 0) src_strides[static_cast<std::size_t>(below(5)) % dims] = 0;
    check(std::int64_t{1} << below(5), shape, src_strides, strides_of(shape, dst_order, below(3)));
  }
}

TEST(StridedCopy, TransposesOfEverySize) {
  for (const std::int64_t item : {1, 2, 4, 8, 16})
    for (const std::int64_t rows : {1, 7, 16, 63, 65, 130})
      for (const std::int64_t columns : {1, 9, 32, 64, 129}) {
        check(item, {rows, columns}, {1, rows}, {columns, 1});
        check(item, {3, rows, columns}, {rows * columns, 1, rows}, {rows * columns, columns, 1});
        check(item, {rows, 3, columns}, {1, rows, 3 * rows}, {3 * columns, columns, 1});
      }
}

TEST(StridedCopy, ScalarsEmptyShapesAndManyDimensions) {
  check(8, {}, {}, {});
  check(4, {0}, {1}, {1});
  check(4, {3, 0, 2}, {2, 2, 1}, {2, 2, 1});
  check(2, Dims(64, 1), Dims(64, 5), Dims(64, 3));
  const Dims twos(10, 2);
  check(2, twos, contiguous_strides(twos), contiguous_strides(twos));
}

TEST(StridedCopy, RepeatsASourceElement) {
  check(4, {100}, {0}, {1});
  check(4, {10, 20}, {0, 0}, {20, 1});
  check(4, {10, 20}, {1, 0}, {20, 1});
  check(4, {10, 20}, {0, 1}, {20, 1});
  check(4, {10, 20}, {0, 1}, {1, 10});
}

}  // namespace
}  // namespace shardkit
