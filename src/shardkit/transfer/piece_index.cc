#include "shardkit/transfer/piece_index.h"

#include <algorithm>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/transfer/element_range.h"

namespace shardkit {
namespace {

std::pair<std::int32_t, std::int32_t> layer_of(const Piece& piece) {
  return {piece.replica, piece.addend};
}

bool lies_row_major(const Piece& piece) {
  std::int64_t inner = 0;
  for (std::size_t d = piece.box.shape.size(); d-- > 0;) {
    if (piece.box.shape[d] == 1) continue;
    if (piece.strides[d] < inner) return false;
    inner = piece.strides[d];
  }
  return true;
}

}  // namespace

PieceIndex::PieceIndex(const CatalogTensor& tensor) : tensor_(&tensor) {
  const Dims strides = contiguous_strides(tensor.shape);
  const std::vector<Piece>& pieces = tensor.pieces;
  starts_.reserve(pieces.size());
  ends_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    row_major_ = row_major_ && lies_row_major(piece);
    const Interval places = places_of(piece.box, strides);
    starts_.push_back(places.begin);
    ends_.push_back(places.end);
  }
  for (std::size_t i = 1; i < pieces.size(); ++i)
    if (layer_of(pieces[i]) == layer_of(pieces[i - 1])) ends_[i] = std::max(ends_[i], ends_[i - 1]);
  for (std::size_t i = pieces.size(); i-- > 1;)
    if (layer_of(pieces[i]) == layer_of(pieces[i - 1]))
      starts_[i - 1] = std::min(starts_[i], starts_[i - 1]);
}

std::span<const Piece> PieceIndex::near(std::int32_t replica, std::int32_t addend,
                                        std::int64_t begin, std::int64_t end) const {
  const std::vector<Piece>& pieces = tensor_->pieces;
  const std::pair layer(replica, addend);
  const auto first = std::lower_bound(
      pieces.begin(), pieces.end(), layer,
      [](const Piece& piece, const auto& wanted) { return layer_of(piece) < wanted; });
  const auto last = std::upper_bound(
      first, pieces.end(), layer,
      [](const auto& wanted, const Piece& piece) { return wanted < layer_of(piece); });
  const auto from = first - pieces.begin();
  const auto to = last - pieces.begin();
  const auto low = std::upper_bound(ends_.begin() + from, ends_.begin() + to, begin);
  const auto high = std::lower_bound(starts_.begin() + from, starts_.begin() + to, end);
  const auto begin_at = low - ends_.begin();
  const auto end_at = std::max(begin_at, high - starts_.begin());
  return std::span(pieces).subspan(static_cast<std::size_t>(begin_at),
                                   static_cast<std::size_t>(end_at - begin_at));
}

}  // namespace shardkit
