// Placement: what one mesh dimension does to a tensor (shard, replicate, partial).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace shardkit {

/// Cut dimension `dim` by torch.chunk's rule, one chunk a coordinate.
struct Shard {
  std::int64_t dim = 0;  ///< 0 <= dim < tensor dimensions
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Cut `dim` into `split_factor` groups, each into chunks; a coordinate holds its chunk of every
/// group (_StridedShard, torch/distributed/tensor/placement_types.py).
struct StridedShard {
  std::int64_t dim = 0;
  std::int64_t split_factor = 1;  ///< >= 1
  friend bool operator==(const StridedShard&, const StridedShard&) = default;
};

/// Every coordinate holds the whole.
struct Replicate {
  friend bool operator==(const Replicate&, const Replicate&) = default;
};

enum class ReduceOp { kSum, kAvg, kMin, kMax, kProduct };

/// Every coordinate holds an addend; the tensor is their reduction.
struct Partial {
  ReduceOp op = ReduceOp::kSum;
  friend bool operator==(const Partial&, const Partial&) = default;
};

using Placement = std::variant<Shard, StridedShard, Replicate, Partial>;

/// The tensor dimension that a Shard or StridedShard cuts.
std::optional<std::int64_t> sharded_dim(const Placement& placement);

/// PyTorch's short spelling: "S(0)", "_S(0, 2)", "R", "P(sum)".
std::string to_string(const Placement& placement);

/// "sum", "avg", "min", "max", "product".
std::string_view to_string(ReduceOp op);
std::optional<ReduceOp> reduce_op_from_name(std::string_view name);

}  // namespace shardkit
