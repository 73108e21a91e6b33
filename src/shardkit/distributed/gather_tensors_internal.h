// gather_tensors(): several DTensors and ShardedTensors made whole, with one agreement for all.
#pragma once

#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/distributed/joint_forms.h"
#include "shardkit/tensor/tensor.h"

namespace shardkit::internal {

/// Collective; as gather_state_dict().
///
/// @param tensors     DTensors and ShardedTensors, or why this rank cannot take part
/// @param ranks_only  ranks of the group; empty: all
/// @return in the order of `tensors`. On ranks that get no result, what is gathered has no storage;
///         a DTensor of which nothing is to be moved is its local tensor everywhere
Result<std::vector<Tensor>> gather_tensors(Result<std::vector<TensorForm>> tensors,
                                           ProcessGroup& group, const std::vector<int>& ranks_only);

}  // namespace shardkit::internal
