// run_of(), bytes_of(): elements that lie one behind the other and need no packing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "shardkit/base/dims.h"
#include "shardkit/layout/box.h"
#include "shardkit/tensor/tensor.h"

namespace shardkit::internal {

/// The first element of a box in a contiguous tensor of this shape, if its elements lie one behind
/// the other there; nothing if they do not. REQUIRES: the box has elements and lies in the tensor
std::optional<std::int64_t> run_of(const Dims& shape, const Box& box);

/// All bytes of a contiguous tensor. REQUIRES: first_element(contiguous).ok()
std::span<std::byte> bytes_of(const Tensor& contiguous);

}  // namespace shardkit::internal
