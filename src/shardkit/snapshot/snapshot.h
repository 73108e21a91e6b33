// Snapshot: what one rank held of some tensors at one time, in CPU memory that nothing else uses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardkit/layout/sharding.h"
#include "shardkit/tensor/tensor.h"

namespace shardkit {

/// One tensor: the local part of a DTensor, or a plain tensor.
struct SnapshotEntry {
  std::string name;
  Tensor tensor;                         ///< contiguous, of the local shape
  std::shared_ptr<const Sharding> spec;  ///< of the DTensor, shared with it; null: a plain tensor
};

/// Made by the functions of this room. A copy looks at the same memory.
struct Snapshot {
  std::vector<SnapshotEntry> entries;  ///< in the order of the tensors that were saved

  /// The spec of the first DTensor, what verl calls the global spec; null if there is none.
  std::shared_ptr<const Sharding> global_spec() const {
    for (const SnapshotEntry& entry : entries)
      if (entry.spec) return entry.spec;
    return nullptr;
  }
};

/// What a load did not touch.
struct LoadReport {
  std::vector<std::string> skipped;  ///< live tensors that the snapshot lacks, in their order
  std::vector<std::string> unused;   ///< entries for which there is no live tensor, in their order
};

}  // namespace shardkit
