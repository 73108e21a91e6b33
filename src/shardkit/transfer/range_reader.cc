#include "shardkit/transfer/range_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "shardkit/base/checked_math.h"
#include "shardkit/tensor/accumulate.h"
#include "shardkit/tensor/convert.h"
#include "shardkit/tensor/overflow.h"
#include "shardkit/transfer/element_range.h"
#include "shardkit/transfer/fold_reader.h"

namespace shardkit {
namespace {

std::byte* allocated(std::unique_ptr<std::byte[]>& buffer, std::size_t bytes) {
  // Not cleared: pages that are never used take no memory.
  if (!buffer) buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return buffer.get();
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
  const CatalogTensor& tensor = pieces.tensor();
  // A transposed source yields short runs: the larger the tile, the longer they are.
  const std::size_t tile_bytes =
      pieces.is_row_major() ? std::min(kCacheTileBytes, buffer_bytes_) : buffer_bytes_;
  const auto tile_elements =
      static_cast<std::int64_t>(tile_bytes) / item_bytes(tensor.dtype);
  while (begin < end) {
    const std::int64_t tile_end = round_range_end(tensor.shape, begin, end, tile_elements);
    const Status status = tensor.reduction
                              ? reduce_tile(pieces, begin, tile_end, dtype, replicas, target)
                              : read_tile(pieces, begin, tile_end, dtype, replicas, target);
    if (!status.ok()) return Error(status.error()).of_tensor(tensor.name);
    target += (tile_end - begin) * item_bytes(dtype);
    begin = tile_end;
  }
  return {};
}

Status RangeReader::read_tile(const PieceIndex& pieces, std::int64_t begin, std::int64_t end,
                               DType dtype, ReplicaPolicy replicas, std::byte* target) {
  const CatalogTensor& tensor = pieces.tensor();
  if (dtype == tensor.dtype) return read_compared(pieces, 0, begin, end, replicas, target);
  std::byte* source = allocated(source_, buffer_bytes_);
  SHARDKIT_TRY(read_compared(pieces, 0, begin, end, replicas, source));
  const auto elements = static_cast<std::size_t>(end - begin);
  const auto source_bytes = elements * static_cast<std::size_t>(item_bytes(tensor.dtype));
  const auto target_bytes = elements * static_cast<std::size_t>(item_bytes(dtype));
  cast(tensor.dtype, {source, source_bytes}, dtype, {target, target_bytes});
  return {};
}

Status RangeReader::reduce_tile(const PieceIndex& pieces, std::int64_t begin,
                                 std::int64_t end, DType dtype, ReplicaPolicy replicas,
                                 std::byte* target) {
  const CatalogTensor& tensor = pieces.tensor();
  const auto elements = static_cast<std::size_t>(end - begin);
  const auto source_bytes = elements * static_cast<std::size_t>(item_bytes(tensor.dtype));
  SHARDKIT_ASSIGN(const DType wide, accumulator_dtype(*tensor.reduction, tensor.dtype));
  const std::span<std::byte> sums(allocated(accumulator_, 2 * buffer_bytes_),
                                  elements * static_cast<std::size_t>(item_bytes(wide)));
  const std::span<std::byte> source(allocated(source_, buffer_bytes_), source_bytes);
  for (std::int32_t addend = 0; addend < tensor.addends; ++addend) {
    SHARDKIT_TRY(read_compared(pieces, addend, begin, end, replicas, source.data()));
    if (addend == 0) {
      begin_accumulation(tensor.dtype, source, sums);
    } else {
      accumulate(*tensor.reduction, tensor.dtype, source, sums);
    }
  }
  if (tensor.divisor != 1) divide_accumulator(tensor.dtype, tensor.divisor, sums);
  const std::span<std::byte> out(target, elements * static_cast<std::size_t>(item_bytes(dtype)));
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

Status RangeReader::read_compared(const PieceIndex& pieces, std::int32_t addend,
                                   std::int64_t begin, std::int64_t end, ReplicaPolicy replicas,
                                   std::byte* target) {
  SHARDKIT_TRY(read_layer(pieces, 0, addend, begin, end, target));
  const CatalogTensor& tensor = pieces.tensor();
  if (replicas == ReplicaPolicy::kFirst) return {};
  const auto bytes = static_cast<std::size_t>((end - begin) * item_bytes(tensor.dtype));
  for (std::int32_t replica = 1; replica < tensor.replicas; ++replica) {
    std::byte* other = allocated(replica_, buffer_bytes_);
    SHARDKIT_TRY(read_layer(pieces, replica, addend, begin, end, other));
    const auto byte = first_different_byte(target, other, bytes);
    if (!byte) continue;
    const Dims index = index_at(
        tensor.shape, begin + static_cast<std::int64_t>(*byte) / item_bytes(tensor.dtype));
    return Error(ErrorCode::kIncomplete,
                 fmt::format("ranks {} and {} hold different copies, first at element {}; "
                             "--replicas first takes the lowest rank's",
                             rank_of(tensor, 0, addend, index),
                             rank_of(tensor, replica, addend, index), to_string(index)));
  }
  return {};
}

Status RangeReader::read_layer(const PieceIndex& pieces, std::int32_t replica,
                                std::int32_t addend, std::int64_t begin, std::int64_t end,
                                std::byte* target) {
  const CatalogTensor& tensor = pieces.tensor();
  const Dims strides = contiguous_strides(tensor.shape);
  const std::int64_t item = item_bytes(tensor.dtype);
  const auto near = pieces.near(replica, addend, begin, end);
  for (const Box& box : boxes_of_range(tensor.shape, begin, end)) {
    for (const Piece& piece : near) {
      const auto common = intersect(piece.box, box);
      if (!common) continue;
      StridedSource source{piece.storage.get(), piece.offset, piece.strides};
      for (std::size_t d = 0; d < common->offset.size(); ++d)
        source.offset += (common->offset[d] - piece.box.offset[d]) * piece.strides[d];
      std::byte* at = target + (position_of(common->offset, strides) - begin) * item;
      SHARDKIT_TRY(boxes_.read(source, item, common->shape, at, strides));
    }
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
