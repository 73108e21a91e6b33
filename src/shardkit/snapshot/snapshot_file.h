// write_snapshot() and read_snapshot(): a snapshot of all ranks on disk, a safetensors file each.
#pragma once

#include <string>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/io/file_system.h"
#include "shardkit/snapshot/snapshot.h"
#include "shardkit/state/memory.h"

namespace shardkit {

/// "snapshot_world_size_4_rank_0.safetensors". docs/snapshots.md has the form.
std::string snapshot_file_name(int world_size, int rank);

/// Writes each rank's snapshot into a file of its own, with the specs in its metadata. Collective.
///
/// A file appears under its name whole or not at all, and only after all ranks have written and
/// synced theirs; what was there is replaced. A crash between two ranks' renames, or a rename that
/// fails, leaves files of two saves, which read_snapshot() refuses: to keep the last save through
/// that, give each its own folder. Any safetensors reader takes the files; the tensors are the
/// local parts.
///
/// @param folder  made if need be; on a disk of this rank's or one that all share
/// @error the same on all ranks, with "rank R: ": kInvalidArgument two entries of one name, a
///        tensor that is not contiguous or not in memory, a spec without a mesh or of another
///        number of dimensions; kUnsupported a dtype that safetensors lacks; as check_sharding();
///        kLimit names and specs of more than 16 MiB; kIo; kPeer
Status write_snapshot(FileSystem& fs, const std::string& folder, const Snapshot& snapshot,
                      ProcessGroup& group);

/// Reads this rank's file. Collective, by as many ranks as wrote. Nothing in a file is believed
/// before it is checked; no more memory is taken than the file is long, some for its header aside.
///
/// @param memory  of the tensors
/// @error the same on all ranks, with "rank R: ": kNotFound; kCorrupt the file breaks its format,
///        or metadata and tensors contradict each other; kInvalidArgument another rank's file, or
///        of another number of ranks, or one without a snapshot's metadata; kUnsupported written by
///        another version; kIncomplete the ranks' files are of different saves; kLimit metadata of
///        more than 16 MiB; as make_cpu_tensor(); kIo; kPeer
Result<Snapshot> read_snapshot(FileSystem& fs, const std::string& folder, ProcessGroup& group,
                               const MemoryOptions& memory = {});

}  // namespace shardkit
