// What a rank does with a state dict alone, and snapshots.
#include <array>

#include "operations.h"
#include "shardkit/io/file_system.h"
#include "shardkit/snapshot/fsdp2_snapshot.h"
#include "shardkit/snapshot/snapshot_file.h"
#include "shardkit/state/compare.h"
#include "shardkit/state/copy.h"
#include "shardkit/state/flatten.h"
#include "shardkit/state/memory.h"

namespace shardkit::interop {
namespace {

Dict dict_of(std::initializer_list<std::pair<std::string, Value>> items) {
  Dict dict;
  for (const auto& [key, value] : items) dict.items.emplace_back(Value(key), value);
  return dict;
}

Result<Dict> dict_item(const Call& call, std::string_view name) {
  SHARDKIT_ASSIGN(const Value value, call.item(name));
  if (const auto* dict = value.get_if<Dict>()) return *dict;
  return Error(ErrorCode::kInvalidArgument, "the item is no dict").found(name);
}

Result<Value> create(const Call& call) {
  SHARDKIT_ASSIGN(const Value state, call.item("state"));
  return create_cpu_state_dict(state, {.share_memory = call.flag("share_memory", false)});
}

Result<Value> copy(const Call& call) {
  SHARDKIT_ASSIGN(const Value from, call.item("from"));
  SHARDKIT_ASSIGN(const Value to, call.item("to"));
  SHARDKIT_ASSIGN(const Value returned, copy_state_dict(from, to));
  return dict_of({{"returned", returned}, {"to", to}});
}

Result<Value> offload(const Call& call) {
  SHARDKIT_ASSIGN(const Value state, call.item("state"));
  SHARDKIT_ASSIGN(const OffloadedState offloaded, offload_state_dict_to_cpu(state));
  return offloaded.state;
}

// The input: "pairs", a list of pairs.
Result<Value> check_similarity(const Call& call) {
  SHARDKIT_ASSIGN(const Value pairs, call.item("pairs"));
  List similar;
  for (const Value& pair : pairs.get_if<List>()->items) {
    const auto& items = pair.get_if<List>()->items;
    similar.items.emplace_back(!check_state_dict_similarity(items[0], items[1]));
  }
  return Value(std::move(similar));
}

// The input: "state", and "part", the flat keys to unflatten.
Result<Value> flatten(const Call& call) {
  SHARDKIT_ASSIGN(const Dict state, dict_item(call, "state"));
  SHARDKIT_ASSIGN(const Value part, call.item("part"));
  SHARDKIT_ASSIGN(const FlatState flat, flatten_state_dict(state, TraverseRule::kEveryContainer));
  List paths;
  for (const auto& entry : flat.mapping.entries()) {
    Tuple path;
    for (const auto& step : entry.path.parts)
      std::visit([&](const auto& s) { path.items.emplace_back(s); }, step);
    paths.items.emplace_back(Tuple{{entry.key, std::move(path)}});
  }
  Dict chosen;
  for (const Value& key : part.get_if<List>()->items)
    chosen.items.emplace_back(key, *find(flat.flat, *key.get_if<std::string>()));
  SHARDKIT_ASSIGN(const Dict nested, unflatten_state_dict(chosen, flat.mapping));
  return dict_of({{"flat", flat.flat}, {"paths", std::move(paths)}, {"part", nested}});
}

// The input: "model", what is saved; and "later", what it is loaded into.
Result<Value> snapshot(const Call& call) {
  SHARDKIT_ASSIGN(const Dict model, dict_item(call, "model"));
  SHARDKIT_ASSIGN(const Dict later, dict_item(call, "later"));
  SHARDKIT_ASSIGN(const Snapshot saved, fsdp2_sharded_save_to_cpu(model));
  SHARDKIT_ASSIGN(const LoadReport report,
                  fsdp2_sharded_load_from_cpu(later, saved, saved.global_spec(), call.group));
  List skipped;
  for (const std::string& name : report.skipped) skipped.items.emplace_back(name);
  return dict_of({{"later", later}, {"skipped", std::move(skipped)}});
}

// The input: "model"; the argument "disk", a folder.
Result<Value> snapshot_on_disk(const Call& call) {
  SHARDKIT_ASSIGN(const Dict model, dict_item(call, "model"));
  SHARDKIT_ASSIGN(const Snapshot saved, fsdp2_sharded_save_to_cpu(model));
  FileSystem& fs = posix_file_system();
  SHARDKIT_TRY(write_snapshot(fs, call.text("disk"), saved, call.group));
  SHARDKIT_ASSIGN(const Snapshot read, read_snapshot(fs, call.text("disk"), call.group));
  Dict state;
  for (const SnapshotEntry& entry : read.entries)
    state.items.emplace_back(
        entry.name, entry.spec ? Value(DTensor{entry.tensor, entry.spec}) : Value(entry.tensor));
  return state;
}

constexpr std::array kOperations{
    Operation{"create_cpu_state_dict", create},
    Operation{"copy_state_dict", copy},
    Operation{"offload_state_dict_to_cpu", offload},
    Operation{"check_state_dict_similarity", check_similarity},
    Operation{"flatten_state_dict", flatten},
    Operation{"snapshot", snapshot},
    Operation{"snapshot_on_disk", snapshot_on_disk},
};

}  // namespace

std::span<const Operation> local_operations() { return kOperations; }

}  // namespace shardkit::interop
