// SnapshotStore: numbered snapshots of one model, as a trainer keeps them between its steps.
#pragma once

#include <cstdint>
#include <map>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/snapshot/snapshot.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// What verl's workers have (verl 0.9.1, verl/experimental/separation/engine_workers.py):
/// asynchronous training saves the current weights under one number, restores the ones that made
/// the samples, computes with them, and goes back. For one thread at a time; each rank has its own,
/// and all save the same numbers in the same order: by that they know which saves belong together.
class SnapshotStore {
 public:
  /// @param memory  of all snapshots
  explicit SnapshotStore(MemoryOptions memory = {}) : memory_(std::move(memory)) {}

  /// Saves under `n`, as fsdp2_sharded_save_to_cpu(). If there is a snapshot `n` that fits it is
  /// refilled, else replaced. @error as there; the snapshot `n` is as it was
  Status save_model_to_cpu(std::int64_t n, const Dict& named_tensors);

  /// Puts `n` back, as fsdp2_sharded_load_from_cpu() with its global spec. Collective; the snapshot
  /// stays.
  /// @param n  the same on all ranks
  /// @error as there; and on all ranks, before a byte is written: kNotFound a rank has no snapshot
  ///        `n` (verl then does nothing on that rank, and the others wait for it); kInvalidArgument
  ///        ranks have other numbers; kIncomplete a rank's snapshot is of an earlier save than the
  ///        others', since its last one failed
  Result<LoadReport> restore_model_from_cpu(std::int64_t n, const Dict& named_tensors,
                                            ProcessGroup& group);

  /// Gives the memory back. @return whether there was a snapshot `n`
  bool clear_cpu_model(std::int64_t n) { return snapshots_.erase(n) > 0; }

  /// The snapshot `n`, until it is saved or cleared again; null if there is none.
  const Snapshot* find(std::int64_t n) const;

 private:
  struct Saved {
    Snapshot snapshot;
    std::uint64_t save;  ///< which call of save_model_to_cpu() it is of
  };

  MemoryOptions memory_;
  std::uint64_t saves_ = 0;  ///< calls, also those that failed
  std::map<std::int64_t, Saved> snapshots_;
};

}  // namespace shardkit
