// Elements that a cast makes infinite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shardkit/tensor/dtype.h"

namespace shardkit {

/// Whether a cast to float16 may find values too large for it: from every wider float.
bool may_overflow_float16(DType from, DType to);

/// How many elements are finite in `in` and infinite in `out`, which convert() made of it.
///
/// Where nothing is infinite, which is the rule, `out` is read once and `in` not at all.
/// REQUIRES: may_overflow_float16(from, DType::kFloat16); equally many elements; no alignment.
std::uint64_t count_float16_overflows(DType from, std::span<const std::byte> in,
                                      std::span<const std::byte> out);

/// Whether any two bytes at an even offset are an infinite float16; of other data that is chance.
bool may_hold_infinite_float16(std::span<const std::byte> bytes);

}  // namespace shardkit
