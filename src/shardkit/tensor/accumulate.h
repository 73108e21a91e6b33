// accumulate: the reduction of Partial tensors, one addend after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shardkit/base/result.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit {

/// PyTorch's operations on Partial tensors. kAvg adds; who reduces divides once at the end.
enum class Accumulation { kSum, kAvg, kMin, kMax, kProduct };

/// The type in which addends of `dtype` are reduced: float32 for float32, float16 and bfloat16;
/// float64 for float64; an integer type itself, which wraps around as PyTorch's does.
///
/// @error kUnsupported bool, complex, float8 and float4; the average of integers, which PyTorch
///                     2.13 refuses too
Result<DType> accumulator_dtype(Accumulation op, DType dtype);

// The steps of a reduction: begin_accumulation() with the first addend, accumulate() with each
// other, for an average divide_accumulator() once, and round_accumulator(). REQUIRES of all:
// accumulator_dtype(op, dtype).ok(); spans hold the same number of whole elements, of `dtype` for
// `in` and `out`, of the accumulator's type for `accumulator`; they do not overlap. None allocates,
// none needs alignment.

/// Makes `accumulator` the first addend; exact.
void begin_accumulation(DType dtype, std::span<const std::byte> in,
                        std::span<std::byte> accumulator);

/// Reduces one more addend into `accumulator`. A NaN on either side of a minimum or maximum makes
/// NaN, as torch.minimum() does (gloo's all-reduce keeps or drops it by rank order).
void accumulate(Accumulation op, DType dtype, std::span<const std::byte> in,
                std::span<std::byte> accumulator);

/// Divides by the number of addends, for averages. REQUIRES: `dtype` no integer, count >= 1
void divide_accumulator(DType dtype, std::int64_t count, std::span<std::byte> accumulator);

/// Rounds to `dtype`, once, to nearest even.
void round_accumulator(DType dtype, std::span<const std::byte> accumulator,
                       std::span<std::byte> out);

}  // namespace shardkit
