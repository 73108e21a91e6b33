// copy_megatron_model_to_cpu() and restore_megatron_model_from_cpu(): copies of unsharded state.
#pragma once

#include <span>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/snapshot/snapshot.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/value.h"

namespace shardkit {

// After verl 0.9.1, verl/utils/megatron_utils.py: a model is a list of chunks (virtual pipeline
// stages), each a Dict of names and plain tensors: a chunk's parameters, or the flat buffers of its
// distributed optimizer under names of the caller's. No spec, no mesh, no other rank.

/// A snapshot of each chunk.
///
/// @param memory  verl pins: {.pin_memory = true}
/// @error as fsdp2_sharded_save_to_cpu(); kInvalidArgument also for a DTensor
Result<std::vector<Snapshot>> copy_megatron_model_to_cpu(std::span<const Dict> models,
                                                         const MemoryOptions& memory = {});

/// Copies each chunk's snapshot back, in place, after all chunks were checked.
///
/// As in verl, a chunk for which there is no snapshot and names that a snapshot lacks are skipped;
/// the reports, one for each chunk, tell them.
///
/// @error as fsdp2_sharded_load_from_cpu(), without other ranks; kInvalidArgument also for a
///        DTensor, for a live tensor in the memory of any chunk's snapshot, and for more snapshots
///        than chunks. Nothing is written then.
Result<std::vector<LoadReport>> restore_megatron_model_from_cpu(
    std::span<const Dict> models, std::span<const Snapshot> cpu_state);

}  // namespace shardkit
