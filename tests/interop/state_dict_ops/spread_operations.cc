// What brings whole tensors to ranks: distributing, broadcasting, loading.
#include <array>
#include <memory>

#include "operations.h"
#include "shardkit/checkpoint/open.h"
#include "shardkit/distributed/broadcast.h"
#include "shardkit/distributed/distribute.h"
#include "shardkit/distributed/load_into_ranks.h"
#include "shardkit/io/file_system.h"

namespace shardkit::interop {
namespace {

Result<Dict> dict_item(const Call& call, std::string_view name) {
  SHARDKIT_ASSIGN(const Value value, call.item(name));
  if (const auto* dict = value.get_if<Dict>()) return *dict;
  return Error(ErrorCode::kInvalidArgument, "an item of the rank's file is no dict").found(name);
}

// "local" with the tensors that "meta" names on the meta device: a file of PyTorch's does not say
// so of DTensors.
Result<Dict> local_state(const Call& call) {
  SHARDKIT_ASSIGN(Dict local, dict_item(call, "local"));
  SHARDKIT_ASSIGN(const Dict meta, dict_item(call, "meta"));
  for (auto& [key, value] : local.items) {
    const auto* name = key.get_if<std::string>();
    if (!name || !find(meta, *name)) continue;
    auto* dtensor = value.get_if<DTensor>();
    Tensor& tensor = dtensor ? dtensor->local : *value.get_if<Tensor>();
    tensor.storage = std::make_shared<const Storage>(NoBytes(), tensor.storage->bytes());
  }
  return local;
}

// The input of the first two: "full", "local" and "meta"; they return "local" as it is then.
Result<Value> distribute(const Call& call) {
  SHARDKIT_ASSIGN(const Dict full, dict_item(call, "full"));
  SHARDKIT_ASSIGN(Dict local, local_state(call));
  SHARDKIT_TRY(distribute_state_dict(full, local, call.group));
  return local;
}

Result<Value> broadcast(const Call& call) {
  SHARDKIT_ASSIGN(const Dict full, dict_item(call, "full"));
  SHARDKIT_ASSIGN(Dict local, local_state(call));
  BroadcastOptions options;
  options.strict = call.flag("strict", false);
  options.cpu_offload = call.flag("cpu_offload", false);
  SHARDKIT_TRY(broadcast_state_dict(full, local, call.group, options));
  return local;
}

// The input: "local" and "meta"; the argument: "checkpoint", a folder.
Result<Value> load(const Call& call) {
  SHARDKIT_ASSIGN(Dict local, local_state(call));
  FileSystem& fs = posix_file_system();
  SHARDKIT_ASSIGN(const CheckpointFolder folder, discover_checkpoint(fs, call.text("checkpoint")));
  SHARDKIT_ASSIGN(const Catalog catalog, open_checkpoint(fs, folder));
  SHARDKIT_TRY(load_into_ranks(fs, catalog, local, call.group));
  return local;
}

constexpr std::array kOperations{
    Operation{"distribute_state_dict", distribute},
    Operation{"broadcast_state_dict", broadcast},
    Operation{"load_into_ranks", load},
};

}  // namespace

std::span<const Operation> spread_operations() { return kOperations; }

}  // namespace shardkit::interop
