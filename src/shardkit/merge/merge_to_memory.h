// One tensor of a checkpoint, merged into memory instead of into a file.
#pragma once

#include <cstddef>
#include <memory>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/io/file_system.h"
#include "shardkit/plan/plan.h"
#include "shardkit/tensor/tensor.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

/// Carries out a plan of this tensor alone: proven, compared, reduced and cast as in a merge.
///
/// @param tensor  index into Catalog::tensors. REQUIRES: check_concatenated() passed, if it is
///                CatalogTensor::guessed
/// @param dtype   of the result; its own, or a float for a float (is_castable_float)
/// @return        a contiguous tensor in memory of its own
/// @error as Plan::make, make_unfilled_cpu_tensor and transfer
/// Memory: the result, and buffers within options.memory_budget.
Result<Tensor> merge_to_memory(FileSystem& fs, std::shared_ptr<const Catalog> catalog,
                               std::size_t tensor, DType dtype, ReplicaPolicy replicas,
                               const TransferOptions& options);

}  // namespace shardkit
