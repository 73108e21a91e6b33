// The state's tensors are noted, gathered in one order on all ranks, and put in their places.
#include "shardkit/distributed/gather.h"

#include <utility>

#include "shardkit/distributed/gather_tensors_internal.h"
#include "shardkit/distributed/iterate_state_dict.h"

namespace shardkit {
namespace {

IterateOptions iterate_options(ProcessGroup& group, const GatherOptions& options) {
  IterateOptions iterate;
  iterate.group = &group;
  iterate.device = options.device;
  iterate.cpu_offload = options.cpu_offload;
  iterate.ranks_only = options.ranks_only;
  iterate.type_check = options.type_check;
  return iterate;
}

// All but plain tensors, which stay.
Result<std::vector<TensorForm>> tensors_to_gather(const Value& state,
                                                  const IterateOptions& options) {
  std::vector<TensorForm> tensors;
  const auto note = [&tensors](const auto& tensor, const IterateContext& context) -> Result<Value> {
    tensors.push_back({context.path, tensor});
    return Value();
  };
  SHARDKIT_TRY(iterate_state_dict(state, {note, note, identity_func<Tensor>}, options));
  return tensors;
}

}  // namespace

Result<Value> gather_state_dict(const Value& state, ProcessGroup& group,
                                const GatherOptions& options) {
  const IterateOptions iterate = iterate_options(group, options);
  SHARDKIT_ASSIGN(auto gathered, internal::gather_tensors(tensors_to_gather(state, iterate), group,
                                                          options.ranks_only));
  std::size_t next = 0;
  const auto take = [&](const auto&, const IterateContext&) -> Result<Value> {
    return Value(std::move(gathered[next++]));
  };
  return iterate_state_dict(state, {take, take, identity_func<Tensor>}, iterate);
}

Result<Tensor> all_gather_sharded_tensor(const ShardedTensor& tensor, ProcessGroup& group,
                                         const std::string& device) {
  IterateOptions options;
  options.device = device;
  SHARDKIT_ASSIGN(auto gathered,
                  internal::gather_tensors(tensors_to_gather(tensor, options), group, {}));
  return std::move(gathered.front());
}

}  // namespace shardkit
