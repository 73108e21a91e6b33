// A box is a run if it is whole in all dimensions behind the first that has more than one element.
#include "shardkit/distributed/box_run_internal.h"

#include "shardkit/base/checked_math.h"

namespace shardkit::internal {

std::optional<std::int64_t> run_of(const Dims& shape, const Box& box) {
  const Dims strides = contiguous_strides(shape);
  std::int64_t first = 0;
  bool cut = false;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (cut && box.shape[d] != 1) return std::nullopt;
    cut = cut || box.shape[d] != shape[d];
    first += box.offset[d] * strides[d];
  }
  return first;
}

}  // namespace shardkit::internal
