#include "shardkit/transfer/box_reader.h"

#include <algorithm>

#include "shardkit/tensor/strided_copy.h"

namespace shardkit {
namespace {

/// A call to the system costs about as much as copying this many bytes: a span is worth reading
/// whole if that wastes less than this for every run it saves.
constexpr std::int64_t kBytesWorthACall = 4096;

}  // namespace

struct BoxReader::Request {
  const Storage* storage;
  std::int64_t item_bytes;
  std::int64_t offset;  // elements
  std::byte* target;
  Dims shape;  // no dimension of size 1; neighbours that could be one dimension are
  Dims strides;
  Dims target_strides;

  void add_dim(std::int64_t size, std::int64_t stride, std::int64_t target_stride) {
    if (size == 1) return;
    const std::size_t n = shape.size();
    if (n > 0 && strides[n - 1] == size * stride && target_strides[n - 1] == size * target_stride) {
      shape[n - 1] *= size;
      strides[n - 1] = stride;
      target_strides[n - 1] = target_stride;
      return;
    }
    const auto append = [](Dims& dims, std::int64_t value) {
      Dims longer(dims.size() + 1, value);
      std::copy(dims.begin(), dims.end(), longer.begin());
      dims = std::move(longer);
    };
    append(shape, size);
    append(strides, stride);
    append(target_strides, target_stride);
  }
};

Status BoxReader::read(const StridedSource& source, std::int64_t item_bytes, const Dims& shape,
                       std::byte* target, const Dims& target_strides) {
  Request request{source.storage, item_bytes, source.offset, target, {}, {}, {}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return {};
    request.add_dim(shape[d], source.strides[d], target_strides[d]);
  }
  if (const MemoryBlock* memory = source.storage->memory()) {
    strided_copy(item_bytes, request.shape, memory->data + source.offset * item_bytes,
                 request.strides, target, request.target_strides);
    return {};
  }
  return read_file(request);
}

Status BoxReader::read_file(const Request& request) {
  const std::size_t dims = request.shape.size();
  const bool one_run =
      dims == 0 || (dims == 1 && request.strides[0] == 1 && request.target_strides[0] == 1);
  if (one_run) {
    const std::int64_t elements = dims == 0 ? 1 : request.shape[0];
    return read_bytes(*request.storage, request.offset * request.item_bytes, request.target,
                      static_cast<std::size_t>(elements * request.item_bytes));
  }
  std::int64_t span = 1;
  std::int64_t elements = 1;
  std::size_t widest = 0;
  for (std::size_t d = 0; d < dims; ++d) {
    span += (request.shape[d] - 1) * request.strides[d];
    elements *= request.shape[d];
    if (request.strides[d] > request.strides[widest]) widest = d;
  }
  const std::int64_t runs = request.strides[dims - 1] == 1 && request.target_strides[dims - 1] == 1
                                ? elements / request.shape[dims - 1]
                                : elements;
  const bool fits = span <= static_cast<std::int64_t>(scratch_bytes_) / request.item_bytes;
  if (fits && (span - elements) * request.item_bytes <= runs * kBytesWorthACall)
    return read_span(request, span);

  Request half = request;
  half.shape[widest] = request.shape[widest] / 2;
  Request rest = request;
  rest.shape[widest] = request.shape[widest] - half.shape[widest];
  rest.offset += half.shape[widest] * request.strides[widest];
  rest.target += half.shape[widest] * request.target_strides[widest] * request.item_bytes;
  for (const Request* part : {&half, &rest}) {
    Request simpler{part->storage, part->item_bytes, part->offset, part->target, {}, {}, {}};
    for (std::size_t d = 0; d < dims; ++d)
      simpler.add_dim(part->shape[d], part->strides[d], part->target_strides[d]);
    SHARDKIT_TRY(read_file(simpler));
  }
  return {};
}

Status BoxReader::read_span(const Request& request, std::int64_t span_elements) {
  if (!scratch_) scratch_ = std::make_unique_for_overwrite<std::byte[]>(scratch_bytes_);
  SHARDKIT_TRY(read_bytes(*request.storage, request.offset * request.item_bytes, scratch_.get(),
                          static_cast<std::size_t>(span_elements * request.item_bytes)));
  strided_copy(request.item_bytes, request.shape, scratch_.get(), request.strides, request.target,
               request.target_strides);
  return {};
}

Status BoxReader::read_bytes(const Storage& storage, std::int64_t offset_bytes, std::byte* target,
                             std::size_t bytes) {
  const FileRange* range = storage.file();
  if (range == nullptr)
    return Error(ErrorCode::kInternal, "a tensor of the meta device, which has no bytes, is read");
  if (!open_file_ || open_path_ != *range->path) {
    SHARDKIT_ASSIGN(open_file_, files_.open(*range->path));
    open_path_ = *range->path;
  }
  return open_file_->read_at(range->offset + static_cast<std::uint64_t>(offset_bytes),
                             {target, bytes});
}

}  // namespace shardkit
