// catalog_of(): whole tensors, in files or in memory, as a Catalog of one rank.
#pragma once

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// @param tensors  name -> Tensor; other entries, and keys that are no text, are listed as skipped
/// @error kInvalidArgument a part of a distributed tensor, or a tensor without bytes
/// @error kCorrupt         a view leaves its storage
Result<Catalog> catalog_of(const Dict& tensors);

}  // namespace shardkit
