// Whether copies of a file on several ranks' disks are equal, where no CRC of the file's tells.
#pragma once

#include <atomic>
#include <span>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/io/file_system.h"
#include "shardkit/joint_merge/rank_calls.h"

namespace shardkit {

/// Whether all ranks that have a file have the same bytes. Collective.
///
/// Looks at files without a directory CRC alone. One that has the same inode and time wherever it
/// is lies on a disk that ranks share, and is not read. Of others each copy is read whole and
/// hashed, by the lowest rank that has it.
///
/// @param disk    this rank's own, without what other ranks have
/// @param files   the same on all ranks, as agree_on_output() makes sure
/// @param cancel  as RankCalls::run()
/// @error kIncomplete  the copies of two ranks differ: both are named; else as RankCalls::run()
Status agree_on_copies(FileSystem& disk, RankCalls& calls, ProcessGroup& group,
                       std::span<const SourceFile> files, const std::atomic<bool>* cancel);

}  // namespace shardkit
