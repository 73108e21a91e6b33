// Arithmetic on sizes that says when it overflows; every number from a file goes through here.
#pragma once

#include <cstdint>
#include <optional>

#include "shardkit/base/dims.h"

namespace shardkit {

template <class T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <class T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The number of elements of a shape: 1 for no dimensions; nothing if a size is negative or the
/// product leaves int64 (a zero anywhere still demands that the other sizes are valid).
[[nodiscard]] std::optional<std::int64_t> element_count(const Dims& shape);

/// Row-major (C order) strides, in elements. REQUIRES: element_count(shape) has a value.
/// Dimensions of size 0 count as 1, as in PyTorch's empty tensors.
[[nodiscard]] Dims contiguous_strides(const Dims& shape);

}  // namespace shardkit
