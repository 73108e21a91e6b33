// scatter_boxes(): the elements of whole tensors, from rank 0 to every rank's targets.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/distributed/targets_internal.h"
#include "shardkit/distributed/tensor_info.h"

namespace shardkit::internal {

/// Bytes that are not cleared. Null is no memory.
using Buffer = std::unique_ptr<std::byte[]>;

/// Room in which a rank's targets that are no run of bytes can arrive.
/// @error kLimit no memory
Result<Buffer> arrival_buffer(std::span<const Target> targets);

/// Fills the targets of all ranks. Collective.
///
/// @param sources  on rank 0: by Target::tensor, in memory; empty elsewhere
/// @param tensors  the same on all ranks, as agreed on
/// @param targets  of this rank, as agreed on
/// @param arrival  arrival_buffer(targets)
/// @error kLimit no memory on rank 0, before a byte is written; as ProcessGroup
Status scatter_boxes(ProcessGroup& group, std::span<const Tensor> sources,
                     std::span<const NamedTensorInfo> tensors, std::span<const Target> targets,
                     const JointTargets& joint, const Buffer& arrival);

}  // namespace shardkit::internal
