// The walk, and what becomes of its results.
#include "shardkit/distributed/iterate_state_dict.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shardkit/state/copy.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/state/tree_map_internal.h"

namespace shardkit {
namespace {

class Iteration : public internal::TreeMap {
 public:
  /// @param keeps  whether this rank gets the results
  Iteration(const TensorFunctions& functions, const IterateOptions& options, bool keeps)
      : functions_(functions), options_(options), keeps_(keeps) {}

 private:
  Result<Value> tensor(const Value& value) override {
    SHARDKIT_ASSIGN(Value result, call(value));
    if (!keeps_) return Value();
    const bool offload = options_.cpu_offload && !options_.companion;
    if (offload && is_tensor(result))
      for (const Tensor* local : internal::local_tensors(result)) {
        SHARDKIT_TRY(first_element(*local));
      }
    return result;
  }

  Result<Value> object(const Value& value) override {
    if (options_.type_check) return internal::unexpected_object(value);
    return create_cpu_state_dict(value);
  }

  Result<Value> call(const Value& value) {
    const IterateContext context{path(), options_.group, options_.device};
    if (const auto* sharded = value.get_if<ShardedTensor>())
      return functions_.sharded_tensor(*sharded, context);
    if (const auto* dtensor = value.get_if<DTensor>()) return functions_.dtensor(*dtensor, context);
    return functions_.tensor(*value.get_if<Tensor>(), context);
  }

  const TensorFunctions& functions_;
  const IterateOptions& options_;
  bool keeps_;
};

// Whether this rank gets the results.
Result<bool> gets_results(const IterateOptions& options) {
  if (options.ranks_only.empty()) return true;
  if (!options.group) return Error(ErrorCode::kInvalidArgument, "ranks_only needs a process group");
  for (const int rank : options.ranks_only)
    if (rank < 0 || rank >= options.group->size())
      return Error(ErrorCode::kInvalidArgument, "ranks_only names a rank outside the group")
          .expected(fmt::format("ranks below {}", options.group->size()))
          .found(std::to_string(rank));
  return std::find(options.ranks_only.begin(), options.ranks_only.end(), options.group->rank()) !=
         options.ranks_only.end();
}

}  // namespace

Result<Value> iterate_state_dict(const Value& state, const TensorFunctions& functions,
                                 const IterateOptions& options) {
  if (options.device != "cpu")
    return Error(ErrorCode::kUnsupported, "tensors are in CPU memory, and no other device is known")
        .expected("cpu")
        .found(options.device);
  SHARDKIT_ASSIGN(const bool keeps, gets_results(options));
  SHARDKIT_ASSIGN(Value result, Iteration(functions, options, keeps).map(state));
  if (!keeps) return state.get_if<Dict>() ? Value(Dict()) : Value();
  if (!options.companion) return result;
  return copy_state_dict(result, *options.companion, options.type_check);
}

}  // namespace shardkit
