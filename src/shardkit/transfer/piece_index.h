// PieceIndex: the pieces of one tensor by where they lie in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shardkit/checkpoint/catalog.h"

namespace shardkit {

/// Finds the pieces of a range without a look at all of them: a tensor of 1,024 ranks is read in
/// many ranges. 16 bytes a piece; made once for each tensor that is read.
class PieceIndex {
 public:
  /// @param tensor  outlives this and does not change. REQUIRES: prove_whole(tensor).ok().
  explicit PieceIndex(const CatalogTensor& tensor);

  const CatalogTensor& tensor() const { return *tensor_; }

  /// Whether every piece's elements lie in the order of the global tensor, or nearly.
  bool is_row_major() const { return row_major_; }

  /// The pieces of a layer among which are all that hold an element of [begin, end), counted in
  /// row-major order. Cost: logarithmic in the pieces.
  std::span<const Piece> near(std::int32_t replica, std::int32_t addend, std::int64_t begin,
                              std::int64_t end) const;

 private:
  const CatalogTensor* tensor_;
  bool row_major_ = true;
  // By piece: no later one of its layer begins before starts_, no earlier one ends after ends_.
  // Both ascend within a layer, whatever the order of the pieces.
  std::vector<std::int64_t> starts_;
  std::vector<std::int64_t> ends_;
};

}  // namespace shardkit
