// Plain tensors alone: whether taking them for chunks of dimension 0 can be believed.
#pragma once

#include <span>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

/// A checkpoint without any DTensor or ShardedTensor is merged as verl merges it, by joining the
/// ranks' tensors on dimension 0. That is refused as ambiguous where all ranks' bytes are equal
/// (they may be replicas), or where the config implies another shape.
///
/// Only what PlainTensors::kAuto guessed is doubted: another choice is the user's word.
/// Reads the ranks' chunks of each such tensor up to their first difference.
///
/// @param tensors  of the source's catalog: those that are wanted
/// @error kIncomplete, naming the tensor and --plain-tensors; as RangeReader::read
Status check_concatenated(FileSystem& fs, const MergeSource& source,
                          std::span<const CatalogTensor> tensors);

}  // namespace shardkit
