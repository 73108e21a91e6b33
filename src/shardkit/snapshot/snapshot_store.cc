#include "shardkit/snapshot/snapshot_store.h"

#include <fmt/format.h>

#include <utility>

#include "shardkit/collective/agreement.h"
#include "shardkit/snapshot/fsdp2_snapshot.h"

namespace shardkit {

Status SnapshotStore::save_model_to_cpu(std::int64_t n, const Dict& named_tensors) {
  const auto old = snapshots_.find(n);
  if (old != snapshots_.end() && refill_snapshot(named_tensors, old->second).ok()) return {};
  SHARDKIT_ASSIGN(Snapshot made, fsdp2_sharded_save_to_cpu(named_tensors, memory_));
  snapshots_.insert_or_assign(n, std::move(made));
  return {};
}

Result<LoadReport> SnapshotStore::restore_model_from_cpu(std::int64_t n, const Dict& named_tensors,
                                                         ProcessGroup& group) {
  const Snapshot* snapshot = find(n);
  Status found;
  if (!snapshot) found = Error(ErrorCode::kNotFound, fmt::format("there is no snapshot {}", n));
  SHARDKIT_TRY(agree_on_status(group, std::move(found)));
  return fsdp2_sharded_load_from_cpu(named_tensors, *snapshot, snapshot->global_spec(), group);
}

const Snapshot* SnapshotStore::find(std::int64_t n) const {
  const auto at = snapshots_.find(n);
  return at == snapshots_.end() ? nullptr : &at->second;
}

}  // namespace shardkit
