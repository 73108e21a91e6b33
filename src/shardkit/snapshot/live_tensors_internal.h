// Live tensors against a snapshot: every check before the first byte, then the copies.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/snapshot/snapshot.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/value.h"

namespace shardkit::internal {

struct LiveTensor {
  std::string_view name;
  const Tensor* local;
  const std::shared_ptr<const Sharding>* spec;  ///< null: a plain tensor
};

/// @error kInvalidArgument no name, no tensor of these kinds, no mesh
Result<LiveTensor> live_tensor(const std::pair<Value, Value>& item);

/// What fsdp2_sharded_save_to_cpu() does.
Result<Snapshot> save_tensors(const Dict& named_tensors, const MemoryOptions& memory);
/// What refill_snapshot() does.
Status refill_tensors(const Dict& named_tensors, Snapshot& snapshot);

/// A load of a model's chunks that was checked and not yet carried out.
class CheckedLoad {
 public:
  /// All checks of fsdp2_sharded_load_from_cpu(), but for target_spec; memory is compared across
  /// all chunks.
  ///
  /// @param snapshots  of the first chunks, at most as many; the others are skipped whole
  /// REQUIRES of both arguments: they outlive this.
  static Result<CheckedLoad> make(std::span<const Dict> chunks,
                                  std::span<const Snapshot> snapshots);

  /// The live tensors of the first chunk that its snapshot lacks. REQUIRES: there is a chunk
  const std::vector<std::string>& skipped() const { return reports_.front().skipped; }

  /// A report for each chunk.
  std::vector<LoadReport> run() &&;

 private:
  struct Copy {
    const Tensor* from;
    LiveTensor to;
  };

  Status add(const Dict& named_tensors, const Snapshot& snapshot);
  Status check_apart(std::span<const Snapshot> snapshots) const;
  Status check_ties() const;

  std::vector<Copy> copies_;
  std::vector<LoadReport> reports_;
};

}  // namespace shardkit::internal
