// fsdp2_sharded_save_to_cpu() and fsdp2_sharded_load_from_cpu(): a rank's shards, saved and put
// back
#pragma once

#include <future>
#include <memory>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/snapshot/snapshot.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/value.h"

namespace shardkit {

// After verl 0.9.1, verl/utils/fsdp_utils.py. `named_tensors` is what a module's named parameters
// and buffers are there: texts as keys, each once, and a Tensor or DTensor in memory for each. A
// tensor may have any strides. Docs: docs/snapshots.md.

/// Copies this rank's part of every tensor. Not collective.
///
/// Everything is copied, also what lies in CPU memory already; verl's `.cpu()` then hands out the
/// live tensor itself. A model without a DTensor is no error; its global spec is absent.
///
/// @param memory  of the copies; see MemoryOptions for shared and pinned memory
/// @error kInvalidArgument a key is no text or comes twice, a value is no Tensor or DTensor, a
///        DTensor has no mesh, a tensor lies in a file or has no bytes (meta)
///        kCorrupt a view leaves its storage; as make_cpu_tensor(). The tensor is named.
/// One thread copies, at the speed of memcpy() where the tensor is contiguous; a second one would
/// save time only in fresh memory, and the other ranks of a machine have the cores.
Result<Snapshot> fsdp2_sharded_save_to_cpu(const Dict& named_tensors,
                                           const MemoryOptions& memory = {});

/// Saves into the memory of a snapshot that exists, without allocating any.
///
/// @param named_tensors  as those that were saved: the same names in the same order, dtypes,
///                       shapes and specs, none in the memory of any of the snapshot's tensors
/// @error kInvalidArgument they differ, and as above; the snapshot is as it was
/// Cost: beside the copies each tensor is compared with each of the snapshot's.
Status refill_snapshot(const Dict& named_tensors, Snapshot& snapshot);

/// Both in a thread of its own. Until the future is ready the live tensors must not be written
/// (they are kept alive here), nor `snapshot` be read or moved, which must outlive that. Errors
/// come with the future, kLimit also if the system gives no thread. Destroying the future waits.
std::future<Result<Snapshot>> fsdp2_sharded_save_to_cpu_async(Dict named_tensors,
                                                              MemoryOptions memory = {});
std::future<Status> refill_snapshot_async(Dict named_tensors, Snapshot& snapshot);

/// Copies a snapshot back into the live tensors, in place. Collective.
///
/// All ranks check everything first; if one finds a fault no rank writes a byte, and all return its
/// error. verl raises on the one rank, in the middle, and leaves the others in a barrier. At the
/// end all ranks wait for each other.
///
/// @param target_spec  snapshot.global_spec(): the mesh that the tensors must be on. Absent only if
///                     no live tensor is a DTensor.
/// @return what was skipped: names that the snapshot lacks, as in verl, a DTensor's on all ranks of
///         its mesh; and what was unused
/// @error kInvalidArgument the mesh of the first live DTensor is not target_spec's (rank array and
///        device type); a live tensor's kind, mesh, placements, order of sharding, shape or dtype
///        are not those saved for it (verl compares placements with those of the first DTensor,
///        which refuses mixed ones); it repeats elements or lies in the memory of any of the
///        snapshot's tensors; a rank's snapshot lacks a DTensor that another rank's has; two live
///        tensors are one in memory (tied), and the snapshot has different elements for them; and
///        as save. The message says "rank R: " and names the tensor.
///        kPeer a rank is late or gone; in the last wait, this rank's tensors are written then
Result<LoadReport> fsdp2_sharded_load_from_cpu(const Dict& named_tensors, const Snapshot& snapshot,
                                               const std::shared_ptr<const Sharding>& target_spec,
                                               ProcessGroup& group);

}  // namespace shardkit
