// compare_values(): two runs of elements, compared by value within a tolerance or bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "shardkit/tensor/dtype.h"

namespace shardkit {

/// `second` is near `first` where |second - first| <= absolute + relative * |first|: the rule of
/// torch.testing.assert_close (torch 2.13, torch/testing/_comparison.py) with `first` as expected.
struct Tolerance {
  double absolute = 0;  ///< >= 0
  double relative = 0;  ///< >= 0
};

/// How two runs of elements differ. The sum over parts of a run is that of the run, in any order.
struct ValueDifferences {
  std::uint64_t count = 0;
  /// |second - first| of the elements that differ, at most; infinity where a NaN takes part, or an
  /// infinity stands against another value.
  double largest_error = 0;
  std::int64_t first_position = 0;  ///< of the first element that differs, if any does
  double first_values[2] = {0, 0};  ///< its real values; of complex numbers the real part

  void add(const ValueDifferences& other);
};

/// Compares element by element.
///
/// With a tolerance by value: computed in double precision from the exact values, 0.0 equals -0.0,
/// equal infinities are equal, NaN equals nothing. Complex numbers differ by the magnitude of their
/// difference; the two numbers of a float4 byte are both looked at. Integers and bool must be
/// equal, whatever the tolerance: no rounding makes them differ.
///
/// @param tolerance  none: bit by bit
/// @param first, second  as many whole elements; no alignment needed
/// @param position   of their first element, for `first_position`
/// Cost: that of reading both where bits are equal. Allocates nothing.
ValueDifferences compare_values(DType dtype, std::span<const std::byte> first,
                                std::span<const std::byte> second,
                                const std::optional<Tolerance>& tolerance, std::int64_t position);

}  // namespace shardkit
