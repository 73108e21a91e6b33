// How processes that know nothing of each other exchange a first message.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/launch_environment.h"

namespace shardkit {

/// Who meets, and until when.
struct Meeting {
  int rank;
  int size;
  std::chrono::steady_clock::time_point deadline;
};

/// Leaves `card` as a file of `folder` and waits for those of the other ranks.
///
/// @return all cards, by rank
/// @error kInvalidArgument  an earlier group has left a file of this rank there
/// @error kPeer             a rank did not come in time
/// @error kNotFound         there is no such folder
/// @error kIo
Result<std::vector<std::string>> meet_in_folder(const std::string& folder, const Meeting& meeting,
                                                const std::string& card);

/// Sends `card` to rank 0, which listens at the environment's master port of all its addresses, and
/// waits for all cards; they are as long as each other.
///
/// @error kPeer      a rank did not come in time, or came twice; what rank 0 found wrong, on all
///                   ranks
/// @error kNotFound  the master's name has no address, until the deadline
/// @error kIo        rank 0 cannot listen, or a rank has no socket to reach it
Result<std::vector<std::string>> meet_at_master(const LaunchEnvironment& environment,
                                                const Meeting& meeting, const std::string& card);

}  // namespace shardkit
