// RangeReader: ranges and boxes of a catalog tensor, joined from its pieces, compared and cast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/box_reader.h"
#include "shardkit/transfer/piece_index.h"

namespace shardkit {

class FoldReader;  // fold_reader.h

/// Reads row-major ranges and boxes of whole tensors with bounded memory. For one thread.
class RangeReader {
 public:
  /// Buffers of this size for read(), each allocated when first needed: the source elements, a
  /// replica of them, the accumulator of Partial addends (twice the size), and the span of a
  /// strided source. read_box() takes one more.
  static constexpr std::size_t kBuffers = 5;

  /// @param files         shared by all readers; outlives this
  /// @param buffer_bytes  >= 4096
  RangeReader(FileCache& files, std::size_t buffer_bytes);
  ~RangeReader();

  /// Writes elements [begin, end) of the tensor, cast to `dtype`, to `target`; with its fold done
  /// (transfer/fold_reader.h, whose memory comes on top of the buffers).
  ///
  /// Partial addends are combined one after another in mesh order, in fp32 (fp64 for fp64,
  /// integers exactly), and rounded once. With kCompare every replica is read and compared with
  /// the one that is taken.
  ///
  /// REQUIRES: a cast and reduction that Plan::make accepts.
  /// @param target  (end - begin) * item_bytes(dtype) bytes
  /// @error kIncomplete  a replica differs; the message names tensor, ranks and first element
  /// @error kIo
  Status read(const PieceIndex& pieces, std::int64_t begin, std::int64_t end, DType dtype,
              ReplicaPolicy replicas, std::byte* target);

  /// Writes a box of the tensor as read() would: element (i0, i1, ...) of the box goes to
  /// sum(i_d * strides[d]) in `target`. Of replicas the first is read.
  ///
  /// Straight into place where nothing is cast, reduced or folded. A fold is read run by run of the
  /// box's elements that follow each other in the tensor.
  ///
  /// REQUIRES: as read(); a box inside the tensor.
  /// @error kIo
  Status read_box(const PieceIndex& pieces, const Box& box, DType dtype, std::byte* target,
                  const Dims& strides);

  /// What read() does of what the pieces hold, whether the tensor has a fold or not.
  Status read_unfolded(const PieceIndex& pieces, std::int64_t begin, std::int64_t end, DType dtype,
                       ReplicaPolicy replicas, std::byte* target);

  /// convert(), and counts what overflows.
  void cast(DType from, std::span<const std::byte> in, DType to, std::span<std::byte> out);

  /// Values that were too large for float16 and became infinite, in all that was read so far.
  std::uint64_t overflows() const { return overflows_; }

 private:
  /// Some of a box's elements: those [begin, end) in its own row-major order.
  struct Part {
    const PieceIndex& pieces;
    const Box& box;
    std::int64_t begin;
    std::int64_t end;
    ReplicaPolicy replicas = ReplicaPolicy::kFirst;

    const CatalogTensor& tensor() const { return pieces.tensor(); }
    std::span<std::byte> bytes(std::byte* data, DType dtype) const;
  };

  // All write a part's elements one behind the other, whether the tensor has a fold or not.
  Status read_part(const Part& part, DType dtype, std::byte* target);
  Status read_tile(const Part& tile, DType dtype, std::byte* target);
  Status reduce_tile(const Part& tile, DType dtype, std::byte* target);
  /// Reads one layer and compares it with its replicas.
  Status read_compared(const Part& tile, std::int32_t addend, std::byte* target);
  Status read_layer(const Part& tile, std::int32_t replica, std::int32_t addend, std::byte* target);
  /// The same of a tensor with a fold, with it.
  Status read_folded(const Part& part, DType dtype, std::byte* target);
  /// Reads a box of one layer, to where read_box() puts it.
  Status read_in_place(const PieceIndex& pieces, std::int32_t replica, std::int32_t addend,
                       const Box& box, std::byte* target, const Dims& strides);

  BoxReader boxes_;
  const std::size_t buffer_bytes_;
  std::unique_ptr<std::byte[]> source_;
  std::unique_ptr<std::byte[]> replica_;
  std::unique_ptr<std::byte[]> accumulator_;
  std::unique_ptr<std::byte[]> spread_;  // what read_box() has still to put in place
  std::uint64_t overflows_ = 0;
  std::unique_ptr<FoldReader> folds_;  // made when first needed
};

/// The row-major position of the first element in which two tensors differ, bit by bit, as stored;
/// nothing if they are equal.
///
/// Reads both up to that element. REQUIRES: equal shapes and dtypes; prove_whole() of both.
/// @error as RangeReader::read
Result<std::optional<std::int64_t>> first_difference(RangeReader& reader, const CatalogTensor& a,
                                                     const CatalogTensor& b);

}  // namespace shardkit
