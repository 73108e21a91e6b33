// run_of(): boxes whose elements need no packing.
#pragma once

#include <cstdint>
#include <optional>

#include "shardkit/base/dims.h"
#include "shardkit/layout/box.h"

namespace shardkit::internal {

/// The first element of a box in a contiguous tensor of this shape, if its elements lie one behind
/// the other there; nothing if they do not. REQUIRES: the box has elements and lies in the tensor
std::optional<std::int64_t> run_of(const Dims& shape, const Box& box);

}  // namespace shardkit::internal
