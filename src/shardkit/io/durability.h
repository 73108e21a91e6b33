// Durability: whether what is written waits for the device.
#pragma once

namespace shardkit {

/// Whether a crash of the machine may lose what was published.
enum class Durability {
  kSynced,    ///< files and folders are on the device before the target appears
  kUnsynced,  ///< left to the system: faster, for scratch disks
};

}  // namespace shardkit
