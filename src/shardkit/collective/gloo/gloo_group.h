// Gloo groups: the process group whose ranks are processes, on one host or many.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "shardkit/base/result.h"
#include "shardkit/collective/launch_environment.h"
#include "shardkit/collective/process_group.h"

namespace shardkit {

/// Whether this build has Gloo; without it the functions below answer kUnsupported.
bool gloo_is_available();

struct GlooOptions {
  GroupOptions group;

  /// How long the making of the group may take, which is how far apart its processes may start.
  std::chrono::milliseconds start_timeout = GroupOptions().timeout;

  /// Which of this host's addresses the other ranks shall connect to: that of a network interface
  /// ("eth0"), or an address or name of this host. At most one of them. With neither,
  /// GLOO_SOCKET_IFNAME names the interface, as for torch.distributed; else it is the address from
  /// which the master's is reached, or, with a folder, that of the host's name, or the loopback's.
  /// Where a host's own name leads to its loopback (as Debian's 127.0.1.1), that is of no use among
  /// several hosts: an error says so.
  std::string interface;
  std::string host;
};

/// A group of the processes that a launcher has started: they meet at rank 0's host, at
/// environment.master_port. Collective: each process calls it once, with its own environment
/// (read_launch_environment()).
///
/// gloo connects each rank with each other over TCP, unencrypted, and trusts whoever connects: for
/// networks that only the job's owner can reach.
///
/// A group holds a thread, and for each other rank a socket and about 14 KiB + 72 * size bytes.
///
/// @error kUnsupported      built without Gloo
/// @error kInvalidArgument  the environment or the options are contradictory, or name nothing here;
/// or
///                          a rank on one of several hosts has a loopback's address
/// @error kNotFound         the master's name has no address, until the start's end
/// @error kIo               no port can be opened, or there is no way to the master
/// @error kPeer             a rank did not come in time; the message names it
Result<std::unique_ptr<ProcessGroup>> make_gloo_group(const LaunchEnvironment& environment,
                                                      const GlooOptions& options = {});

/// The same by a folder that all ranks see, in which each leaves a file.
///
/// @param folder  exists, and is used for one group only: what an earlier one left is an error
/// @param rank    0 to size - 1, another one in each process
/// @param size    at least 1, the same in all processes
/// @error as above, but kNotFound  there is no such folder
Result<std::unique_ptr<ProcessGroup>> make_gloo_group(const std::string& folder, int rank, int size,
                                                      const GlooOptions& options = {});

}  // namespace shardkit
