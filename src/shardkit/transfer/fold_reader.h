// FoldReader: ranges of a tensor with its low-rank update folded in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/piece_index.h"
#include "shardkit/transfer/range_reader.h"

namespace shardkit {

/// Reads W + scale * B A (checkpoint/fold.h) in ranges: W and the rows of one factor with the
/// range, the other factor whole when its tensor is begun. For one thread.
///
/// Of experts whose factors lie side by side, one after another is done; for each, B is read over.
///
/// Every element is computed alone and in one order (tensor/low_rank.h), so that the bytes depend
/// neither on the ranges nor on who reads them.
class FoldReader {
 public:
  /// Memory that a reader needs for any fold of a plan; 0: there is none. Buffers, and the largest
  /// factor that is held whole.
  static std::uint64_t bytes_needed(const Plan& plan);

  /// @param reader  reads the parts; outlives this
  explicit FoldReader(RangeReader& reader) : reader_(reader) {}

  /// Writes elements [begin, end), folded in fold_dtype() and cast once to `dtype`.
  ///
  /// @param base    of a tensor with a fold
  /// @param target  (end - begin) * item_bytes(dtype) bytes
  /// @error as RangeReader::read
  Status read(const PieceIndex& base, std::int64_t begin, std::int64_t end, DType dtype,
              ReplicaPolicy replicas, std::byte* target);

 private:
  /// Makes ready for a tensor's fold, of experts for that of one.
  template <class T>
  Status open(const CatalogTensor& tensor, std::int64_t expert);
  template <class T>
  Status read_b(const PieceIndex& pieces, std::int64_t first_row, std::int64_t last_row, T* target,
                std::int64_t row_stride, std::int64_t rank_stride);
  template <class T>
  Status read_as(const PieceIndex& base, std::int64_t begin, std::int64_t end, DType dtype,
                 std::byte* target);
  template <class T>
  Status read_matrix(const PieceIndex& base, std::int64_t begin, std::int64_t end, DType dtype,
                     std::byte* target);
  template <class T>
  Status read_left(std::int64_t first_row, std::int64_t last_row);
  template <class T>
  Status read_sums(const PieceIndex& base, std::int64_t begin, std::int64_t end);
  template <class T>
  Status find_row_factors(const PieceIndex& base, std::int64_t last_row);

  RangeReader& reader_;
  ReplicaPolicy replicas_ = ReplicaPolicy::kCompare;
  std::shared_ptr<const Fold> open_;  // whose factors are held
  std::int64_t experts_ = 1;
  std::int64_t expert_ = 0;      // of which of them
  std::int64_t base_begin_ = 0;  // where its matrix begins in the tensor
  FoldShape shape_;
  std::optional<PieceIndex> left_pieces_;
  std::vector<std::byte> right_;       // rank x columns
  std::vector<double> magnitudes_;     // of DoRA: one for each row
  std::vector<double> row_factors_;    // of DoRA: those of the rows in left_
  std::unique_ptr<std::byte[]> left_;  // rows x rank, some of them
  std::int64_t first_left_row_ = 0;
  std::unique_ptr<std::byte[]> sums_;  // elements of W, then of the sum
};

}  // namespace shardkit
