#include "shardkit/snapshot/snapshot_store.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"
#include "shardkit/snapshot/fsdp2_snapshot.h"

namespace shardkit {
namespace {

std::string encode(std::int64_t n, std::uint64_t save) {
  MessageWriter out;
  out.put(n);
  out.put(static_cast<std::int64_t>(save));
  return std::move(out).take();
}

// Whether all ranks are to put back one number, of one save.
Status check_same(const std::vector<std::string>& messages) {
  std::int64_t common_n = 0;
  std::int64_t common_save = 0;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    MessageReader in(messages[rank]);
    SHARDKIT_ASSIGN(const std::int64_t n, in.number());
    SHARDKIT_ASSIGN(const std::int64_t save, in.number());
    if (rank == 0) {
      common_n = n;
      common_save = save;
    }
    if (n != common_n)
      return Error(
          ErrorCode::kInvalidArgument,
          fmt::format("rank 0 puts snapshot {} back, and rank {} snapshot {}", common_n, rank, n));
    if (save != common_save)
      return Error(
          ErrorCode::kIncomplete,
          fmt::format("the snapshots {} of ranks 0 and {} are of different saves", n, rank));
  }
  return {};
}

}  // namespace

Status SnapshotStore::save_model_to_cpu(std::int64_t n, const Dict& named_tensors) {
  ++saves_;
  const auto old = snapshots_.find(n);
  if (old != snapshots_.end() && refill_snapshot(named_tensors, old->second.snapshot).ok()) {
    old->second.save = saves_;
    return {};
  }
  SHARDKIT_ASSIGN(Snapshot made, fsdp2_sharded_save_to_cpu(named_tensors, memory_));
  snapshots_.insert_or_assign(n, Saved{std::move(made), saves_});
  return {};
}

Result<LoadReport> SnapshotStore::restore_model_from_cpu(std::int64_t n, const Dict& named_tensors,
                                                         ProcessGroup& group) {
  const auto saved = snapshots_.find(n);
  Result<std::string> mine = std::string();
  if (saved != snapshots_.end())
    mine = encode(n, saved->second.save);
  else
    mine = Error(ErrorCode::kNotFound, fmt::format("there is no snapshot {}", n));
  SHARDKIT_ASSIGN(const auto messages, exchange_messages(group, std::move(mine)));
  SHARDKIT_TRY(check_same(messages));
  const Snapshot& snapshot = saved->second.snapshot;
  return fsdp2_sharded_load_from_cpu(named_tensors, snapshot, snapshot.global_spec(), group);
}

const Snapshot* SnapshotStore::find(std::int64_t n) const {
  const auto at = snapshots_.find(n);
  return at == snapshots_.end() ? nullptr : &at->second.snapshot;
}

}  // namespace shardkit
