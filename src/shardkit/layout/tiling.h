// The proof that boxes cover a tensor exactly once.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/layout/box.h"

namespace shardkit {

/// Two boxes that share an element, if any do.
///
/// @param boxes  none empty, of equal dimensions; offset + shape does not overflow
/// @error kLimit boxes that interlock so much that no straight cut separates them, or only hundreds
///        of cuts within each other
///
/// Cost: n log n a dimension for the grids that shardings make.
Result<std::optional<std::pair<Box, Box>>> find_overlap(std::vector<Box> boxes);

/// Whether the boxes hold every element of a tensor of this shape, and none twice.
///
/// They do when each lies inside, no two overlap, and their volumes add up to the tensor's.
///
/// @param boxes  none empty; a tensor without elements has none
/// @error kIncomplete the message shows the box that leaves the tensor, the two that overlap, or
///        how many elements are missing; kLimit as find_overlap
Status check_tiling(const Dims& shape, std::vector<Box> boxes);

}  // namespace shardkit
