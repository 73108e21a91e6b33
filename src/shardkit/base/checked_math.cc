#include "shardkit/base/checked_math.h"

namespace shardkit {

std::optional<std::int64_t> element_count(const Dims& shape) {
  std::int64_t nonzero = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    const auto product = checked_mul(nonzero, size);
    if (!product) return std::nullopt;
    nonzero = *product;
  }
  return empty ? 0 : nonzero;
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides(shape.size(), 1);
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return strides;
}

}  // namespace shardkit
