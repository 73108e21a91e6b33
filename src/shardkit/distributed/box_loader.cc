// Boxes straight into place, or tile by tile through reduction and cast.
#include "shardkit/distributed/box_loader_internal.h"

#include <algorithm>
#include <span>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/tensor/convert.h"
#include "shardkit/tensor/strided_copy.h"
#include "shardkit/transfer/element_range.h"

namespace shardkit::internal {
namespace {

constexpr std::int64_t kWidestItem = 16;

std::byte* allocated(std::unique_ptr<std::byte[]>& buffer, std::int64_t bytes) {
  // Not cleared: pages that are never used take no memory.
  const auto size = static_cast<std::size_t>(bytes);
  if (!buffer) buffer = std::make_unique_for_overwrite<std::byte[]>(size);
  return buffer.get();
}

std::int64_t dot(const Dims& index, const Dims& strides) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < index.size(); ++d) sum += index[d] * strides[d];
  return sum;
}

Dims sum_of(Dims a, const Dims& b) {
  for (std::size_t d = 0; d < a.size(); ++d) a[d] += b[d];
  return a;
}

Dims difference_of(Dims a, const Dims& b) {
  for (std::size_t d = 0; d < a.size(); ++d) a[d] -= b[d];
  return a;
}

}  // namespace

Status BoxLoader::load(const CatalogTensor& tensor, const BoxPair& box, const Tensor& local) {
  const std::int64_t item = item_bytes(local.dtype);
  std::byte* const data = local.storage->memory()->data + local.offset * item;
  if (!tensor.reduction && local.dtype == tensor.dtype)
    return read_addend(tensor, 0, box.global, data + dot(box.local_offset, local.strides) * item,
                       local.strides);
  const Dims& shape = box.global.shape;
  const std::int64_t elements = *element_count(shape);
  std::byte* const tile = allocated(tile_, kTileElements * kWidestItem);
  for (std::int64_t begin = 0, end = 0; begin < elements; begin = end) {
    end = round_range_end(shape, begin, elements, kTileElements);
    for (const Box& part : boxes_of_range(shape, begin, end)) {
      const Box global{sum_of(box.global.offset, part.offset), part.shape};
      SHARDKIT_TRY(read_tile(tensor, global, local.dtype, tile));
      const Dims at = sum_of(box.local_offset, part.offset);
      strided_copy(item, part.shape, tile, contiguous_strides(part.shape),
                   data + dot(at, local.strides) * item, local.strides);
    }
  }
  return {};
}

Status BoxLoader::read_tile(const CatalogTensor& tensor, const Box& box, DType dtype,
                            std::byte* target) {
  const std::int64_t elements = *element_count(box.shape);
  const auto span_of = [elements](std::byte* data, DType type) {
    return std::span(data, static_cast<std::size_t>(elements * item_bytes(type)));
  };
  const Dims strides = contiguous_strides(box.shape);
  const auto source = span_of(allocated(source_, kTileElements * kWidestItem), tensor.dtype);
  const auto out = span_of(target, dtype);
  SHARDKIT_TRY(read_addend(tensor, 0, box, source.data(), strides));
  if (!tensor.reduction) {
    convert(tensor.dtype, source, dtype, out);
    return {};
  }
  SHARDKIT_ASSIGN(const DType wide, accumulator_dtype(*tensor.reduction, tensor.dtype));
  const auto sums = span_of(allocated(sums_, kTileElements * kWidestItem), wide);
  begin_accumulation(tensor.dtype, source, sums);
  for (std::int32_t addend = 1; addend < tensor.addends; ++addend) {
    SHARDKIT_TRY(read_addend(tensor, addend, box, source.data(), strides));
    accumulate(*tensor.reduction, tensor.dtype, source, sums);
  }
  if (tensor.divisor != 1) divide_accumulator(tensor.dtype, tensor.divisor, sums);
  if (dtype == tensor.dtype) {
    round_accumulator(tensor.dtype, sums, out);
  } else {
    // Straight from the accumulator: rounding to the stored dtype first would round twice.
    convert(wide, sums, dtype, out);
  }
  return {};
}

Status BoxLoader::read_addend(const CatalogTensor& tensor, std::int32_t addend, const Box& box,
                              std::byte* target, const Dims& strides) {
  const std::int64_t item = item_bytes(tensor.dtype);
  const auto before = [](const Piece& piece, std::int32_t wanted) {
    return std::pair(piece.replica, piece.addend) < std::pair(std::int32_t{0}, wanted);
  };
  auto piece = std::lower_bound(tensor.pieces.begin(), tensor.pieces.end(), addend, before);
  for (; piece != tensor.pieces.end() && piece->replica == 0 && piece->addend == addend; ++piece) {
    const auto common = intersect(piece->box, box);
    if (!common) continue;
    const std::int64_t offset =
        piece->offset + dot(difference_of(common->offset, piece->box.offset), piece->strides);
    std::byte* const at = target + dot(difference_of(common->offset, box.offset), strides) * item;
    SHARDKIT_TRY(reader_.read({piece->storage.get(), offset, piece->strides}, item, common->shape,
                              at, strides));
  }
  return {};
}

}  // namespace shardkit::internal
