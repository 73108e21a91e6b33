// A box is a run if it is whole in all dimensions behind the first that has more than one element.
#include "shardkit/base/checked_math.h"
#include "shardkit/distributed/box_run_internal.h"
#include "shardkit/state/memory.h"
#include "shardkit/transfer/element_range.h"

namespace shardkit::internal {

std::optional<std::int64_t> run_of(const Dims& shape, const Box& box) {
  bool cut = false;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (cut && box.shape[d] != 1) return std::nullopt;
    cut = cut || box.shape[d] != shape[d];
  }
  return position_of(box.offset, contiguous_strides(shape));
}

std::span<std::byte> bytes_of(const Tensor& contiguous) {
  std::byte* const first = *first_element(contiguous);
  if (!first) return {};
  return {first, static_cast<std::size_t>(contiguous.bytes())};
}

}  // namespace shardkit::internal
