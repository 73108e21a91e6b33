// reduce_in_rank_order: the all_reduce of all backends, so that they agree to the bit.
#pragma once

#include <cstddef>
#include <span>

#include "shardkit/tensor/accumulate.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit {

/// Reduces one addend of each rank, in the order of ranks, and rounds once. Does not allocate.
///
/// @param addends  by rank, at least one; the same number of whole elements each.
///                 REQUIRES: accumulator_dtype(op, dtype).ok()
/// @param out      as large as an addend; may be one of them
void reduce_in_rank_order(Accumulation op, DType dtype,
                          std::span<const std::span<const std::byte>> addends,
                          std::span<std::byte> out);

}  // namespace shardkit
