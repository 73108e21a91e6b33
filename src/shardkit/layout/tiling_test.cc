#include "shardkit/layout/tiling.h"

#include <gtest/gtest.h>

#include <random>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(Tiling, ChunksOfOneDimension) {
  EXPECT_THAT(check_tiling({5, 3}, {{{3, 0}, {2, 3}}, {{0, 0}, {3, 3}}}), IsOk());
}

TEST(Tiling, AHoleIsFound) {
  EXPECT_THAT(check_tiling({5, 3}, {{{0, 0}, {3, 3}}}),
              Fails(ErrorCode::kIncomplete, "expected 15 elements, found 9"));
  EXPECT_THAT(check_tiling({2}, {}), Fails(ErrorCode::kIncomplete, "do not cover"));
}

TEST(Tiling, AnOverlapIsFoundThoughTheVolumeFits) {
  EXPECT_THAT(check_tiling({4}, {{{0}, {2}}, {{1}, {2}}}),
              Fails(ErrorCode::kIncomplete, "[0:2] and [1:3]"));
  EXPECT_THAT(check_tiling({4, 4}, {{{0, 0}, {4, 2}}, {{0, 0}, {2, 4}}}),
              Fails(ErrorCode::kIncomplete, "same elements"));
}

TEST(Tiling, ABoxThatLeavesTheTensorIsFound) {
  EXPECT_THAT(check_tiling({4}, {{{2}, {3}}}), Fails(ErrorCode::kIncomplete, "[2:5]"));
  EXPECT_THAT(check_tiling({4}, {{{-1}, {4}}}), Fails(ErrorCode::kIncomplete, "leaves"));
  EXPECT_THAT(check_tiling({4}, {{{0, 0}, {4, 1}}}), Fails(ErrorCode::kIncomplete, "leaves"));
}

TEST(Tiling, AShapeThatNoTensorHasIsRefused) {
  for (const Dims& shape : {Dims{4, -1}, Dims{std::int64_t{1} << 62, 4}})
    EXPECT_THAT(
        check_tiling(shape, {}),
        Fails(ErrorCode::kInvalidArgument,
              "a size is negative, or the shape has too many elements: found " + to_string(shape)));
}

TEST(Tiling, NoDimensionsAndNoElements) {
  EXPECT_THAT(check_tiling({}, {{{}, {}}}), IsOk());
  EXPECT_THAT(check_tiling({}, {{{}, {}}, {{}, {}}}), Fails(ErrorCode::kIncomplete, "same"));
  EXPECT_THAT(check_tiling({0, 3}, {}), IsOk());
}

TEST(Tiling, APinwheelThatNoStraightCutSeparates) {
  std::vector<Box> pinwheel = {
      {{0, 0}, {1, 2}}, {{0, 2}, {2, 1}}, {{2, 1}, {1, 2}}, {{1, 0}, {2, 1}}, {{1, 1}, {1, 1}}};
  EXPECT_THAT(check_tiling({3, 3}, pinwheel), IsOk());
  pinwheel.back().offset = {0, 0};
  EXPECT_THAT(check_tiling({3, 3}, pinwheel), Fails(ErrorCode::kIncomplete, "same elements"));
}

// A pinwheel around rows: no straight cut separates anything, and a hostile file may list millions.
TEST(Tiling, TooManyInterlockedBoxesAreRefusedInBoundedTime) {
  const auto pinwheel_around = [](std::int64_t n) {
    std::vector<Box> boxes = {{{0, 0}, {1, n + 1}},
                              {{0, n + 1}, {n + 1, 1}},
                              {{n + 1, 1}, {1, n + 1}},
                              {{1, 0}, {n + 1, 1}}};
    for (std::int64_t i = 0; i < n; ++i) boxes.push_back({{1 + i, 1}, {1, n}});
    return boxes;
  };
  EXPECT_THAT(check_tiling({1002, 1002}, pinwheel_around(1000)), IsOk());
  EXPECT_THAT(check_tiling({20002, 20002}, pinwheel_around(20000)),
              Fails(ErrorCode::kLimit,
                    "the pieces interlock too much to be checked for overlap: found 20004 pieces"));
}

// Each straight cut takes one box off: the left column, the top row of the rest, and so on.
TEST(Tiling, AStaircaseOfManyBoxesIsRefusedBeforeTheStackEnds) {
  const auto staircase = [](std::int64_t n) {
    std::vector<Box> boxes;
    for (std::int64_t i = 0; i < n; ++i)
      boxes.push_back({{i, i}, i % 2 == 0 ? Dims{n - i, 1} : Dims{1, n - i}});
    return boxes;
  };
  EXPECT_THAT(find_overlap(staircase(100)), IsOk());
  EXPECT_THAT(find_overlap(staircase(50000)),
              Fails(ErrorCode::kLimit, "the pieces interlock too much to be checked for overlap"));
}

// Random boxes on a small grid, against counting every cell.
TEST(Tiling, AgreesWithCountingCells) {
  std::mt19937 random(20261129);
  const auto below = [&random](int n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  int tilings = 0;
  for (int round = 0; round < 20000; ++round) {
    const Dims shape{1 + below(3), 1 + below(3)};
    std::vector<Box> boxes;
    std::vector<int> cells(static_cast<std::size_t>(shape[0] * shape[1]), 0);
    for (std::int64_t left = shape[0] * shape[1]; left > 0;) {
      Box box;
      box.offset = {below(static_cast<int>(shape[0])), below(static_cast<int>(shape[1]))};
      box.shape = {1 + below(static_cast<int>(shape[0] - box.offset[0])),
                   1 + below(static_cast<int>(shape[1] - box.offset[1]))};
      for (std::int64_t i = 0; i < box.shape[0]; ++i)
        for (std::int64_t j = 0; j < box.shape[1]; ++j)
          ++cells[static_cast<std::size_t>((box.offset[0] + i) * shape[1] + box.offset[1] + j)];
      left -= box.shape[0] * box.shape[1];
      boxes.push_back(box);
    }
    const bool exact = std::all_of(cells.begin(), cells.end(), [](int n) { return n == 1; });
    tilings += exact;
    ASSERT_EQ(check_tiling(shape, boxes).ok(), exact);
  }
  EXPECT_GT(tilings, 100);
}

}  // namespace
}  // namespace shardkit
