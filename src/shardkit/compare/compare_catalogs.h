// compare_catalogs(): two sets of tensors, wherever they lie, compared element by element.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/compare/value_comparison.h"
#include "shardkit/hf/config.h"
#include "shardkit/hf/dtype_choice.h"
#include "shardkit/io/file_system.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

/// One of the two.
struct ComparedTensors {
  std::shared_ptr<const Catalog> catalog;
  hf::DTypeChoice dtype;                    ///< to what floats are cast first; not kAuto
  const hf::ModelConfig* config = nullptr;  ///< says which names are tied; may be null
};

struct ComparisonOptions {
  std::optional<Tolerance> tolerance;  ///< none: bit by bit
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  /// Threads, memory and progress. `memory_budget` is of both sides together.
  TransferOptions transfer;
};

/// What is wrong with a tensor; in the order of a report.
enum class DifferenceKind { kOnlyInFirst, kOnlyInSecond, kShape, kDType, kValues };

struct TensorDifference {
  std::string name;
  DifferenceKind kind = DifferenceKind::kValues;
  std::string first;  ///< of kShape and kDType: what the first side has, as PyTorch prints it
  std::string second;
  std::int64_t elements = 0;  ///< of the larger side
  ValueDifferences values;    ///< of kValues
  Dims first_index;           ///< of kValues: where the first element that differs lies
};

struct Comparison {
  std::uint64_t tensors = 0;  ///< names that are in either
  std::uint64_t equal = 0;
  /// By kind; of one kind the largest first: the largest error, else most elements.
  std::vector<TensorDifference> differences;
  /// A tie that stood in for a tensor that one side leaves out; values that a cast made infinite.
  std::vector<std::string> notes;
};

/// Compares names, shapes, dtypes after the casts, and values.
///
/// Where one side lacks a tensor that is tied to another by the config of either (hf/ties.h), the
/// other stands in for it: save_pretrained() leaves tied tensors out. Nothing else is renamed.
///
/// @error as Plan::make and transfer, for both sides: what a merge refuses is refused here
/// @error kInvalidArgument as transfer; the budget is below kLeastComparisonBudget
/// Reads both sides once. The result does not depend on the number of threads. Memory: the budget.
Result<Comparison> compare_catalogs(FileSystem& fs, const ComparedTensors& first,
                                    const ComparedTensors& second,
                                    const ComparisonOptions& options);

/// What each thread needs for both sides, at least.
inline constexpr std::uint64_t kLeastComparisonBudget = 24u << 20;

}  // namespace shardkit
