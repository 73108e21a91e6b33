// convert: casts between float64, float32, float16 and bfloat16, as PyTorch's Tensor.to() casts.
#pragma once

#include <cstddef>
#include <span>

#include "shardkit/tensor/dtype.h"

namespace shardkit {

/// Casts every element of `in`.
///
/// Rounds to nearest, ties to even, once; float64 goes through float32 on its way to 16 bits, as in
/// PyTorch (torch 2.13, c10/util/BFloat16.h and Half.h convert from float). Too large becomes
/// infinity, too small a subnormal or zero, with its sign. A NaN becomes a quiet NaN with its sign
/// and the top of its payload; equal types are copied bit by bit.
///
/// @param from  element type of `in`; REQUIRES is_castable_float()
/// @param in    whole elements; no alignment needed
/// @param to    element type of `out`; REQUIRES is_castable_float()
/// @param out   room for exactly as many elements; no alignment needed; must not overlap `in`
///
/// Memory-bound for large arrays: the widest vector instructions of the machine are chosen at run
/// time. Makes no allocation.
void convert(DType from, std::span<const std::byte> in, DType to, std::span<std::byte> out);

}  // namespace shardkit
