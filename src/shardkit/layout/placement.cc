// Placement: spelling placements and reduce operations.
#include "shardkit/layout/placement.h"

#include <fmt/format.h>

#include <array>

namespace shardkit {
namespace {

struct Speller {
  std::string operator()(const Shard& shard) const { return fmt::format("S({})", shard.dim); }
  std::string operator()(const StridedShard& shard) const {
    return fmt::format("_S({}, {})", shard.dim, shard.split_factor);
  }
  std::string operator()(const Replicate&) const { return "R"; }
  std::string operator()(const Partial& partial) const {
    return fmt::format("P({})", to_string(partial.op));
  }
};

constexpr std::array kReduceOps{ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMin, ReduceOp::kMax,
                                ReduceOp::kProduct};

}  // namespace

std::optional<std::int64_t> sharded_dim(const Placement& placement) {
  if (const auto* shard = std::get_if<Shard>(&placement)) return shard->dim;
  if (const auto* strided = std::get_if<StridedShard>(&placement)) return strided->dim;
  return std::nullopt;
}

std::string to_string(const Placement& placement) { return std::visit(Speller{}, placement); }

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kAvg: return "avg";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kProduct: return "product";
  }
  return "sum";
}

std::optional<ReduceOp> reduce_op_from_name(std::string_view name) {
  for (const ReduceOp op : kReduceOps)
    if (to_string(op) == name) return op;
  return std::nullopt;
}

}  // namespace shardkit
