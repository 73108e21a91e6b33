// iterate_state_dict() and what gathers.
#include <array>

#include "operations.h"
#include "shardkit/distributed/gather.h"
#include "shardkit/distributed/iterate_state_dict.h"

namespace shardkit::interop {
namespace {

// The input: "state", and perhaps "companion".
Result<Value> iterate(const Call& call) {
  SHARDKIT_ASSIGN(const Value state, call.item("state"));
  const auto companion = call.item("companion");
  IterateOptions options;
  options.group = &call.group;
  options.cpu_offload = call.flag("cpu_offload", false);
  options.ranks_only = call.numbers("ranks_only");
  options.type_check = call.flag("type_check", true);
  if (companion.ok()) options.companion = &*companion;
  return iterate_state_dict(
      state, {identity_func<ShardedTensor>, identity_func<DTensor>, identity_func<Tensor>},
      options);
}

Result<Value> gather(const Call& call) {
  GatherOptions options;
  options.cpu_offload = call.flag("cpu_offload", false);
  options.ranks_only = call.numbers("ranks_only");
  options.type_check = call.flag("type_check", true);
  return gather_state_dict(call.input, call.group, options);
}

Result<Value> all_gather(const Call& call) {
  const auto* tensor = call.input.get_if<ShardedTensor>();
  if (!tensor) return Error(ErrorCode::kInvalidArgument, "the file holds no ShardedTensor");
  SHARDKIT_ASSIGN(Tensor whole, all_gather_sharded_tensor(*tensor, call.group));
  return Value(std::move(whole));
}

constexpr std::array kOperations{
    Operation{"all_gather_sharded_tensor", all_gather},
    Operation{"gather_state_dict", gather},
    Operation{"iterate_state_dict", iterate},
};

}  // namespace

std::span<const Operation> gather_operations() { return kOperations; }

}  // namespace shardkit::interop
