#include "shardkit/tensor/tensor.h"

#include <fmt/format.h>

#include "shardkit/base/checked_math.h"

namespace shardkit {

std::int64_t Tensor::numel() const { return element_count(shape).value_or(0); }

std::int64_t Tensor::bytes() const { return numel() * item_bytes(dtype); }

Status check_view(const Tensor& tensor) {
  const auto bad = [&tensor](std::string what) {
    return Error(ErrorCode::kCorrupt, std::move(what))
        .found(fmt::format("shape {}, strides {}, offset {}", to_string(tensor.shape),
                           to_string(tensor.strides), tensor.offset));
  };
  const auto numel = element_count(tensor.shape);
  if (!numel || !checked_mul(*numel, item_bytes(tensor.dtype)))
    return bad("a size is negative, or the element count overflows");
  if (tensor.strides.size() != tensor.shape.size())
    return bad("the number of strides is not the number of dimensions");
  if (tensor.offset < 0) return bad("the storage offset is negative");
  std::optional<std::int64_t> last = tensor.offset;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.strides[d] < 0) return bad("a stride is negative");
    if (*numel == 0) continue;
    const auto step = checked_mul(tensor.shape[d] - 1, tensor.strides[d]);
    if (last) last = step ? checked_add(*last, *step) : std::nullopt;
  }
  if (*numel == 0) return {};
  if (!tensor.storage) return Error(ErrorCode::kInternal, "a tensor has no storage");
  const auto storage_elements = static_cast<std::int64_t>(
      tensor.storage->bytes() / static_cast<std::uint64_t>(item_bytes(tensor.dtype)));
  if (!last || *last >= storage_elements)
    return bad("the view leaves its storage")
        .expected(
            fmt::format("at most {} elements of {}", storage_elements, torch_name(tensor.dtype)));
  return {};
}

bool is_contiguous(const Tensor& tensor) {
  std::int64_t step = 1;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    if (tensor.shape[d] == 0) return true;
    if (tensor.shape[d] != 1 && tensor.strides[d] != step) return false;
    step *= tensor.shape[d];
  }
  return true;
}

}  // namespace shardkit
