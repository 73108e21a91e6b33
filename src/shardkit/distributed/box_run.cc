// A box is a run if it is whole in all dimensions behind the first that has more than one element.
#include "shardkit/distributed/box_run_internal.h"

#include "shardkit/base/checked_math.h"
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

}  // namespace shardkit::internal
