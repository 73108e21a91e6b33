// What a merge writes, compared with a reference instead of written.
#pragma once

#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/decide_output.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/state/compare.h"
#include "shardkit/state/value.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

/// Every tensor in which the merge and the reference differ, once, in the order of the checkpoint,
/// then what only the reference holds. Compared are names, dtypes (as the merge writes them),
/// shapes and every bit: NaNs of the same bits are equal, 0.0 and -0.0 are not.
///
/// An alias that the merge leaves out because it is tied may be in the reference or not; if it is,
/// it is compared. Entries of the reference that are no tensors are left aside.
///
/// @param reference  name -> Tensor, in files or in memory: see safetensors::read_model
/// @error kInvalidArgument the reference holds a part of a distributed tensor, or one without bytes
/// @error kCorrupt         a view of the reference leaves its storage
/// @error as Plan::make and transfer: what a merge refuses while it streams is refused here
/// Reads both sides once. Memory: the budget, which must be kLeastComparisonBudget or more.
Result<std::vector<Difference>> compare_with_reference(FileSystem& fs, const MergeSource& source,
                                                       const OutputDecision& decision,
                                                       const Dict& reference,
                                                       const TransferOptions& options);

}  // namespace shardkit
