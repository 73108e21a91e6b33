#include "shardkit/transfer/range_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "shardkit/base/checked_math.h"
#include "shardkit/tensor/accumulate.h"
#include "shardkit/tensor/convert.h"
#include "shardkit/tensor/overflow.h"
#include "shardkit/tensor/strided_copy.h"
#include "shardkit/transfer/element_range.h"
#include "shardkit/transfer/fold_reader.h"

namespace shardkit {
namespace {

std::byte* allocated(std::unique_ptr<std::byte[]>& buffer, std::size_t bytes) {
  // Not cleared: pages that are never used take no memory.
  if (!buffer) buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return buffer.get();
}

Dims sum_of(Dims a, const Dims& b) {
  for (std::size_t d = 0; d < a.size(); ++d) a[d] += b[d];
  return a;
}

Dims difference_of(Dims a, const Dims& b) {
  for (std::size_t d = 0; d < a.size(); ++d) a[d] -= b[d];
  return a;
}

/// Tiles of about this many bytes stay in the processor's cache between the steps.
constexpr std::size_t kCacheTileBytes = 1 << 20;

/// The rank whose piece of a layer holds an element.
std::int32_t rank_of(const CatalogTensor& tensor, std::int32_t replica, std::int32_t addend,
                     const Dims& index) {
  const Box element{index, Dims(index.size(), 1)};
  for (const Piece& piece : tensor.pieces)
    if (piece.replica == replica && piece.addend == addend && intersect(piece.box, element))
      return piece.rank;
  return -1;
}

std::optional<std::size_t> first_different_byte(const std::byte* a, const std::byte* b,
                                                std::size_t bytes) {
  if (std::memcmp(a, b, bytes) == 0) return std::nullopt;
  return static_cast<std::size_t>(std::mismatch(a, a + bytes, b).first - a);
}

}  // namespace

RangeReader::RangeReader(FileCache& files, std::size_t buffer_bytes)
    : boxes_(files, buffer_bytes), buffer_bytes_(buffer_bytes) {}

RangeReader::~RangeReader() = default;

Status RangeReader::read(const PieceIndex& pieces, std::int64_t begin, std::int64_t end,
                         DType dtype, ReplicaPolicy replicas, std::byte* target) {
  if (!pieces.tensor().fold) return read_unfolded(pieces, begin, end, dtype, replicas, target);
  if (!folds_) folds_ = std::make_unique<FoldReader>(*this);
  return folds_->read(pieces, begin, end, dtype, replicas, target);
}

Status RangeReader::read_unfolded(const PieceIndex& pieces, std::int64_t begin, std::int64_t end,
                                  DType dtype, ReplicaPolicy replicas, std::byte* target) {
  const Box all = whole(pieces.tensor().shape);
  return read_part({pieces, all, begin, end, replicas}, dtype, target);
}

Status RangeReader::read_box(const PieceIndex& pieces, const Box& box, DType dtype,
                             std::byte* target, const Dims& strides) {
  const CatalogTensor& tensor = pieces.tensor();
  if (box.empty()) return {};
  if (dtype == tensor.dtype && !tensor.reduction && !tensor.fold)
    return read_in_place(pieces, 0, 0, box, target, strides);
  const std::int64_t item = item_bytes(dtype);
  const Dims dense = contiguous_strides(box.shape);
  const std::int64_t elements = *element_count(box.shape);
  std::byte* const spread = allocated(spread_, buffer_bytes_);
  for (std::int64_t begin = 0, end = 0; begin < elements; begin = end) {
    end = round_range_end(box.shape, begin, elements,
                          static_cast<std::int64_t>(buffer_bytes_) / item);
    const Part part{pieces, box, begin, end};
    SHARDKIT_TRY(tensor.fold ? read_folded(part, dtype, spread) : read_part(part, dtype, spread));
    for (const Box& run : boxes_of_range(box.shape, begin, end))
      strided_copy(item, run.shape, spread + (position_of(run.offset, dense) - begin) * item, dense,
                   target + position_of(run.offset, strides) * item, strides);
  }
  return {};
}

Status RangeReader::read_folded(const Part& part, DType dtype, std::byte* target) {
  const Dims& shape = part.tensor().shape;
  const Dims strides = contiguous_strides(shape);
  std::int64_t run = 1;  // elements of the box that follow each other in the tensor
  for (std::size_t d = shape.size(); d-- > 0;) {
    run *= part.box.shape[d];
    if (part.box.shape[d] != shape[d]) break;
  }
  for (std::int64_t at = part.begin, end = 0; at < part.end; at = end) {
    end = std::min(at / run * run + run, part.end);
    const std::int64_t first =
        position_of(sum_of(part.box.offset, index_at(part.box.shape, at)), strides);
    SHARDKIT_TRY(read(part.pieces, first, first + end - at, dtype, part.replicas, target));
    target += (end - at) * item_bytes(dtype);
  }
  return {};
}

Status RangeReader::read_part(const Part& part, DType dtype, std::byte* target) {
  const CatalogTensor& tensor = part.tensor();
  // A transposed source yields short runs: the larger the tile, the longer they are.
  const std::size_t tile_bytes =
      part.pieces.is_row_major() ? std::min(kCacheTileBytes, buffer_bytes_) : buffer_bytes_;
  const auto tile_elements = static_cast<std::int64_t>(tile_bytes) / item_bytes(tensor.dtype);
  Part tile = part;
  for (; tile.begin < part.end; tile.begin = tile.end) {
    tile.end = round_range_end(part.box.shape, tile.begin, part.end, tile_elements);
    const Status status =
        tensor.reduction ? reduce_tile(tile, dtype, target) : read_tile(tile, dtype, target);
    if (!status.ok()) return Error(status.error()).of_tensor(tensor.name);
    target += (tile.end - tile.begin) * item_bytes(dtype);
  }
  return {};
}

std::span<std::byte> RangeReader::Part::bytes(std::byte* data, DType dtype) const {
  return {data, static_cast<std::size_t>((end - begin) * item_bytes(dtype))};
}

Status RangeReader::read_tile(const Part& tile, DType dtype, std::byte* target) {
  const DType stored = tile.tensor().dtype;
  if (dtype == stored) return read_compared(tile, 0, target);
  std::byte* source = allocated(source_, buffer_bytes_);
  SHARDKIT_TRY(read_compared(tile, 0, source));
  cast(stored, tile.bytes(source, stored), dtype, tile.bytes(target, dtype));
  return {};
}

Status RangeReader::reduce_tile(const Part& tile, DType dtype, std::byte* target) {
  const CatalogTensor& tensor = tile.tensor();
  SHARDKIT_ASSIGN(const DType wide, accumulator_dtype(*tensor.reduction, tensor.dtype));
  const auto sums = tile.bytes(allocated(accumulator_, 2 * buffer_bytes_), wide);
  const auto source = tile.bytes(allocated(source_, buffer_bytes_), tensor.dtype);
  for (std::int32_t addend = 0; addend < tensor.addends; ++addend) {
    SHARDKIT_TRY(read_compared(tile, addend, source.data()));
    if (addend == 0) {
      begin_accumulation(tensor.dtype, source, sums);
    } else {
      accumulate(*tensor.reduction, tensor.dtype, source, sums);
    }
  }
  if (tensor.divisor != 1) divide_accumulator(tensor.dtype, tensor.divisor, sums);
  const auto out = tile.bytes(target, dtype);
  if (dtype == tensor.dtype) {
    round_accumulator(tensor.dtype, sums, out);
  } else {
    // Straight from the accumulator: rounding to the stored dtype first would round twice.
    cast(wide, sums, dtype, out);
  }
  return {};
}

void RangeReader::cast(DType from, std::span<const std::byte> in, DType to,
                       std::span<std::byte> out) {
  convert(from, in, to, out);
  if (may_overflow_float16(from, to)) overflows_ += count_float16_overflows(from, in, out);
}

Status RangeReader::read_compared(const Part& tile, std::int32_t addend, std::byte* target) {
  SHARDKIT_TRY(read_layer(tile, 0, addend, target));
  const CatalogTensor& tensor = tile.tensor();
  if (tile.replicas == ReplicaPolicy::kFirst) return {};
  const std::size_t bytes = tile.bytes(target, tensor.dtype).size();
  for (std::int32_t replica = 1; replica < tensor.replicas; ++replica) {
    std::byte* other = allocated(replica_, buffer_bytes_);
    SHARDKIT_TRY(read_layer(tile, replica, addend, other));
    const auto byte = first_different_byte(target, other, bytes);
    if (!byte) continue;
    const std::int64_t at =
        tile.begin + static_cast<std::int64_t>(*byte) / item_bytes(tensor.dtype);
    const Dims index = sum_of(tile.box.offset, index_at(tile.box.shape, at));
    const Dims written =
        index_at(tensor.shape_to_write(), position_of(index, contiguous_strides(tensor.shape)));
    return Error(ErrorCode::kIncomplete,
                 fmt::format("ranks {} and {} hold different copies, first at element {}; "
                             "--replicas first takes the lowest rank's",
                             rank_of(tensor, 0, addend, index),
                             rank_of(tensor, replica, addend, index), to_string(written)));
  }
  return {};
}

Status RangeReader::read_layer(const Part& tile, std::int32_t replica, std::int32_t addend,
                               std::byte* target) {
  const Dims strides = contiguous_strides(tile.box.shape);
  const std::int64_t item = item_bytes(tile.tensor().dtype);
  for (const Box& run : boxes_of_range(tile.box.shape, tile.begin, tile.end)) {
    std::byte* at = target + (position_of(run.offset, strides) - tile.begin) * item;
    const Box in_tensor{sum_of(tile.box.offset, run.offset), run.shape};
    SHARDKIT_TRY(read_in_place(tile.pieces, replica, addend, in_tensor, at, strides));
  }
  return {};
}

Status RangeReader::read_in_place(const PieceIndex& pieces, std::int32_t replica,
                                  std::int32_t addend, const Box& box, std::byte* target,
                                  const Dims& strides) {
  const CatalogTensor& tensor = pieces.tensor();
  const std::int64_t item = item_bytes(tensor.dtype);
  const Interval places = places_of(box, contiguous_strides(tensor.shape));
  for (const Piece& piece : pieces.near(replica, addend, places.begin, places.end)) {
    const auto common = intersect(piece.box, box);
    if (!common) continue;
    const Dims in_piece = difference_of(common->offset, piece.box.offset);
    const Dims in_box = difference_of(common->offset, box.offset);
    const StridedSource source{piece.storage.get(),
                               piece.offset + position_of(in_piece, piece.strides), piece.strides};
    SHARDKIT_TRY(boxes_.read(source, item, common->shape,
                             target + position_of(in_box, strides) * item, strides));
  }
  return {};
}

Result<std::optional<std::int64_t>> first_difference(RangeReader& reader, const CatalogTensor& a,
                                                     const CatalogTensor& b) {
  constexpr std::size_t kStepBytes = 1 << 20;
  const auto step = static_cast<std::int64_t>(kStepBytes) / item_bytes(a.dtype);
  const PieceIndex pieces_of_a(a);
  const PieceIndex pieces_of_b(b);
  std::unique_ptr<std::byte[]> left, right;
  const std::int64_t elements = a.numel();
  for (std::int64_t begin = 0; begin < elements; begin += step) {
    const std::int64_t end = std::min(begin + step, elements);
    std::byte* const x = allocated(left, kStepBytes);
    std::byte* const y = allocated(right, kStepBytes);
    SHARDKIT_TRY(reader.read(pieces_of_a, begin, end, a.dtype, ReplicaPolicy::kFirst, x));
    SHARDKIT_TRY(reader.read(pieces_of_b, begin, end, b.dtype, ReplicaPolicy::kFirst, y));
    const auto bytes = static_cast<std::size_t>((end - begin) * item_bytes(a.dtype));
    if (const auto byte = first_different_byte(x, y, bytes))
      return std::optional(begin + static_cast<std::int64_t>(*byte) / item_bytes(a.dtype));
  }
  return std::optional<std::int64_t>();
}

}  // namespace shardkit
