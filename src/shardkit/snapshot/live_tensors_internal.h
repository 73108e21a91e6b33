// Live tensors against a snapshot: every check before the first byte, then the copies.
#pragma once

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

/// A load that was checked and not yet carried out.
class CheckedLoad {
 public:
  /// All checks of fsdp2_sharded_load_from_cpu(), but for target_spec. REQUIRES of both arguments:
  /// they outlive this.
  static Result<CheckedLoad> make(const Dict& named_tensors, const Snapshot& snapshot);

  LoadReport run() &&;

 private:
  struct Copy {
    const Tensor* from;
    const Tensor* to;
  };

  std::vector<Copy> copies_;
  LoadReport report_;
};

}  // namespace shardkit::internal
