// A tensor of a catalog as an output file of its own, for plans whose sink is no disk.
#pragma once

#include <cstddef>

#include "shardkit/base/checked_math.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/plan/plan.h"

namespace shardkit::internal {

/// The tensor's bytes in `dtype`, whole and row-major, and nothing else. A size that overflows is 0
/// here, which Plan::make refuses.
inline PlannedFile tensor_file(const Catalog& catalog, std::size_t tensor, DType dtype) {
  const auto bytes = checked_mul(catalog.tensors[tensor].numel(), item_bytes(dtype));
  PlannedFile file;
  file.name = catalog.tensors[tensor].name;
  file.tensors = {{tensor, dtype, 0}};
  file.bytes = static_cast<std::uint64_t>(bytes.value_or(0));
  return file;
}

}  // namespace shardkit::internal
