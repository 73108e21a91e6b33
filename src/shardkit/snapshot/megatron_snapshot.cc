// Chunk by chunk what live_tensors.cc does.
#include "shardkit/snapshot/megatron_snapshot.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "shardkit/snapshot/live_tensors_internal.h"

namespace shardkit {
namespace {

Status check_unsharded(std::span<const Dict> models) {
  for (const Dict& model : models)
    for (const auto& item : model.items) {
      SHARDKIT_ASSIGN(const internal::LiveTensor live, internal::live_tensor(item));
      if (live.spec)
        return Error(ErrorCode::kInvalidArgument,
                     "a DTensor is no unsharded state: see fsdp2_sharded_save_to_cpu()")
            .of_tensor(live.name);
    }
  return {};
}

}  // namespace

Result<std::vector<Snapshot>> copy_megatron_model_to_cpu(std::span<const Dict> models,
                                                         const MemoryOptions& memory) {
  SHARDKIT_TRY(check_unsharded(models));
  std::vector<Snapshot> snapshots;
  for (const Dict& model : models) {
    SHARDKIT_ASSIGN(Snapshot snapshot, internal::save_tensors(model, memory));
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

Result<std::vector<LoadReport>> restore_megatron_model_from_cpu(
    std::span<const Dict> models, std::span<const Snapshot> cpu_state) {
  SHARDKIT_TRY(check_unsharded(models));
  if (cpu_state.size() > models.size())
    return Error(ErrorCode::kInvalidArgument, "more snapshots than chunks of the model")
        .expected(fmt::format("at most {}", models.size()))
        .found(std::to_string(cpu_state.size()));
  SHARDKIT_ASSIGN(internal::CheckedLoad load, internal::CheckedLoad::make(models, cpu_state));
  return std::move(load).run();
}

}  // namespace shardkit
