// Thread groups: the process group whose ranks are threads of one process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"

namespace shardkit {

/// The ends of a group, by rank: each thread takes its own. No setup, no global state.
///
/// Nothing is staged: bytes are copied straight from the sender's buffer to the receiver's, once.
/// All ranks of a call share the copies, whoever receives them, and the parts of an all_reduce.
/// Waiting sleeps. Memory beside the buffers does not depend on their sizes.
///
/// Ranks see each other's failures at once: a thread that is done with its rank destroys its end,
/// and then no other one waits for it in vain.
///
/// @param size  REQUIRES: at least 1
std::vector<std::unique_ptr<ProcessGroup>> make_thread_groups(int size,
                                                              const GroupOptions& options = {});

/// Runs `fn` as each rank of a group of `size`, each on a thread of its own, and waits for all.
///
/// A rank's end is destroyed when its `fn` returns, whether with success, an error or an exception.
///
/// @param size  REQUIRES: at least 1
/// @return by rank, what `fn` returned: kInternal with the exception's text where it threw, kLimit
///         where the system gave no thread
std::vector<Status> run_ranks(int size, const std::function<Status(ProcessGroup&)>& fn,
                              const GroupOptions& options = {});

}  // namespace shardkit
