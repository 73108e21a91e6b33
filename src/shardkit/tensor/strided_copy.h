// strided_copy: copies a box of elements from one strided view in memory to another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shardkit/base/dims.h"

namespace shardkit {

/// Copies element (i0, i1, ...) of the source to element (i0, i1, ...) of the destination, for all
/// indices below `shape`.
///
/// @param item_bytes   bytes of one element: 1, 2, 4, 8 or 16
/// @param shape        elements in each dimension; a 0 copies nothing, no dimensions one element
/// @param src          the first element; no alignment needed
/// @param src_strides  elements, >= 0, one a dimension; 0 repeats an element
/// @param dst          the first element; must not overlap the source
/// @param dst_strides  elements, >= 0; no two indices may name the same place
///
/// REQUIRES that both views lie in memory of the caller's (check_view()). Dimensions that lie one
/// behind another in both views are copied as one run. Where neither order of the dimensions suits
/// both sides (a transposition), square tiles keep both in the cache. Makes no allocation.
void strided_copy(std::int64_t item_bytes, const Dims& shape, const std::byte* src,
                  const Dims& src_strides, std::byte* dst, const Dims& dst_strides);

}  // namespace shardkit
