// The proof that boxes cover a tensor exactly once.
#pragma once

#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/layout/box.h"

namespace shardkit {

/// Whether the boxes hold every element of a tensor of this shape, and none twice.
///
/// They do when each lies inside, no two overlap, and their volumes add up to the tensor's.
///
/// @param boxes  none empty; a tensor without elements has none
/// @error kIncomplete the message shows the box that leaves the tensor, the two that overlap, or
///        how many elements are missing
///
/// Cost: n log n a dimension for the grids that shardings make; pairwise only where boxes interlock
/// so that no straight cut separates them.
Status check_tiling(const Dims& shape, std::vector<Box> boxes);

}  // namespace shardkit
