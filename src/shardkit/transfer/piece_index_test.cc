#include "shardkit/transfer/piece_index.h"

#include <gtest/gtest.h>

#include <set>

#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

Piece piece(Box box, std::int32_t replica = 0, std::int32_t addend = 0) {
  Piece result;
  result.strides = contiguous_strides(box.shape);
  result.box = std::move(box);
  result.replica = replica;
  result.addend = addend;
  return result;
}

std::set<std::string> boxes(std::span<const Piece> pieces) {
  std::set<std::string> texts;
  for (const Piece& piece : pieces) texts.insert(to_string(piece.box));
  return texts;
}

/// The pieces of a layer that hold an element of a range, found element by element.
std::set<std::string> holders(const CatalogTensor& tensor, std::int32_t replica,
                              std::int32_t addend, std::int64_t begin, std::int64_t end) {
  std::set<std::string> texts;
  const std::int64_t columns = tensor.shape[1];
  for (std::int64_t i = begin; i < end; ++i)
    for (const Piece& piece : tensor.pieces)
      if (piece.replica == replica && piece.addend == addend &&
          intersect(piece.box, Box{{i / columns, i % columns}, {1, 1}}))
        texts.insert(to_string(piece.box));
  return texts;
}

TEST(PieceIndex, EveryRangeFindsAllPiecesThatHoldItsElements) {
  CatalogTensor tensor;
  tensor.shape = {6, 4};
  // Layers of rows, of columns, and of a grid whose pieces stand in no order.
  tensor.pieces = {
      piece({{0, 0}, {2, 4}}),       piece({{2, 0}, {1, 4}}),       piece({{3, 0}, {3, 4}}),
      piece({{0, 0}, {6, 1}}, 0, 1), piece({{0, 1}, {6, 3}}, 0, 1), piece({{4, 0}, {2, 2}}, 1, 0),
      piece({{0, 0}, {4, 3}}, 1, 0), piece({{4, 2}, {2, 2}}, 1, 0), piece({{0, 3}, {4, 1}}, 1, 0)};
  const PieceIndex index(tensor);
  for (const auto& [replica, addend] : {std::pair(0, 0), std::pair(0, 1), std::pair(1, 0)}) {
    for (std::int64_t begin = 0; begin < 24; ++begin) {
      for (std::int64_t end = begin + 1; end <= 24; ++end) {
        const auto found = boxes(index.near(replica, addend, begin, end));
        for (const std::string& box : holders(tensor, replica, addend, begin, end))
          EXPECT_TRUE(found.contains(box)) << box << " for " << begin << " to " << end;
      }
    }
  }
  EXPECT_TRUE(index.near(2, 0, 0, 24).empty());
}

TEST(PieceIndex, ARangeOfRowsFindsItsRowsAlone) {
  CatalogTensor tensor;
  tensor.shape = {1024, 8};
  for (std::int64_t row = 0; row < 1024; ++row) tensor.pieces.push_back(piece({{row, 0}, {1, 8}}));
  const PieceIndex index(tensor);
  EXPECT_EQ(boxes(index.near(0, 0, 8 * 500 + 7, 8 * 502)),
            (std::set<std::string>{"[500:501, 0:8]", "[501:502, 0:8]"}));
}

TEST(PieceIndex, ATransposedPieceIsNotRowMajor) {
  CatalogTensor tensor;
  tensor.shape = {2, 6};
  tensor.pieces = {piece({{0, 0}, {2, 3}}), piece({{0, 3}, {2, 3}})};
  EXPECT_TRUE(PieceIndex(tensor).is_row_major());
  tensor.pieces[1].strides = {1, 2};
  EXPECT_FALSE(PieceIndex(tensor).is_row_major());
}

}  // namespace
}  // namespace shardkit
