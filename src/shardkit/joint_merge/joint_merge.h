// A merge that the ranks of a group share: each makes a part of the output files.
#pragma once

#include <optional>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/merge/merge_report.h"

namespace shardkit {

/// FSDPModelMerger::merge_and_save() by all ranks of a group. Collective.
///
/// The target lies on a disk that all ranks see; rank 0 alone locks, publishes, and writes what are
/// no weights. Of the weights each rank writes as many bytes, one run of blocks. The folder is the
/// very one that a single process makes, which may also end what a killed joint merge has left, as
/// may any other number of ranks.
///
/// options' local_dir, more_local_dirs, hf_folder and base_model_dir may lie on disks of the ranks'
/// hosts, each holding some of the files: what a rank needs and lacks, other ranks read and send
/// (joint_file_system.h). Copies on several disks must be equal.
///
/// An error of one rank is the error of all, naming it, and nothing is published. The stage is then
/// removed, but where a rank is gone: that leaves it for the next run, as a killed merge does.
///
/// @param fs       this rank's disk
/// @param options  the same on all ranks but for threads, memory, progress and cancel; progress is
///                 of all ranks together, and called on rank 0 alone, by the calling thread
/// @return         on rank 0 the report, on others what they know of it
/// @error as merge_and_save(); kInvalidArgument the ranks have different options; kIncomplete they
///        hold different copies of a file; kIo a rank does not see the target; kPeer
/// Memory: as a merge, on each rank; and at most some 64 MiB of what it sends to others, and what
/// its own threads read at a time.
Result<MergeReport> merge_jointly(FileSystem& fs, const MergeOptions& options, ProcessGroup& group);

/// FSDPModelMerger::plan() by all ranks, which agree on it. Collective.
/// @error as plan() and merge_jointly()
Result<MergeReport> plan_jointly(FileSystem& fs, const MergeOptions& options, ProcessGroup& group);

/// FSDPModelMerger::find_merged() on rank 0, which others send what its disk lacks. Collective.
/// @return on rank 0 the report, on others an empty one; nothing on all, if there is nothing
/// @error as find_merged() and merge_jointly()
Result<std::optional<MergeReport>> find_merged_jointly(FileSystem& fs, const MergeOptions& options,
                                                       ProcessGroup& group);

}  // namespace shardkit
