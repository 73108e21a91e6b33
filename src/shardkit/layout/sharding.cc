// The box rule: checking a sharding, and the intervals that a coordinate holds.
#include "shardkit/layout/sharding.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardkit/base/checked_math.h"
#include "shardkit/layout/cut.h"

namespace shardkit {
namespace {

Error corrupt(std::string what) { return {ErrorCode::kCorrupt, std::move(what)}; }

Status check_placements(const Sharding& sharding) {
  std::int64_t groups = 1;
  for (const Placement& placement : sharding.placements) {
    const auto dim = sharded_dim(placement);
    if (!dim) continue;
    if (*dim < 0 || static_cast<std::size_t>(*dim) >= sharding.shape.size())
      return corrupt("a placement cuts a dimension that the tensor does not have")
          .expected(fmt::format("a dimension of shape {}", to_string(sharding.shape)))
          .found(to_string(placement));
    const auto* strided = std::get_if<StridedShard>(&placement);
    if (!strided) continue;
    if (strided->split_factor < 1)
      return corrupt("a split factor is less than 1").found(to_string(placement));
    const auto product = checked_mul(groups, strided->split_factor);
    if (!product || *product > kMaxSplitFactor)
      return Error(ErrorCode::kLimit, "the split factors of a tensor are too large")
          .expected(fmt::format("a product of at most {}", kMaxSplitFactor))
          .found(to_string(placement));
    groups = *product;
  }
  return {};
}

Status check_partials(const std::vector<Placement>& placements) {
  const auto is_linear = [](ReduceOp op) { return op == ReduceOp::kSum || op == ReduceOp::kAvg; };
  std::optional<ReduceOp> first;
  for (const Placement& placement : placements) {
    const auto* partial = std::get_if<Partial>(&placement);
    if (!partial) continue;
    if (!first) first = partial->op;
    // torch 2.13, _utils.py assert_no_mixed_partial_types: only sum and avg commute.
    if (*first != partial->op && !(is_linear(*first) && is_linear(partial->op)))
      return Error(ErrorCode::kUnsupported, "placements mix Partial operations")
          .found(fmt::format("{} and {}", to_string(*first), to_string(partial->op)));
  }
  return {};
}

// torch 2.13, _dtensor_spec.py DTensorSpec._verify_shard_order.
Status check_shard_order(const Sharding& sharding) {
  if (sharding.shard_order.empty()) return {};
  std::vector<bool> seen(sharding.placements.size(), false);
  std::int64_t last_dim = -1;
  for (const ShardOrder& entry : sharding.shard_order) {
    if (entry.tensor_dim <= last_dim)
      return corrupt("a shard_order's tensor dimensions do not ascend")
          .found(std::to_string(entry.tensor_dim));
    last_dim = entry.tensor_dim;
    bool strided = false;
    for (const std::int64_t m : entry.mesh_dims) {
      const auto mesh_dim = static_cast<std::size_t>(m);
      if (m < 0 || mesh_dim >= seen.size() || seen[mesh_dim] ||
          sharded_dim(sharding.placements[mesh_dim]) != entry.tensor_dim)
        return corrupt("a shard_order does not fit the placements")
            .found(fmt::format("mesh dimension {} for tensor dimension {}", m, entry.tensor_dim));
      seen[mesh_dim] = true;
      strided = strided || std::holds_alternative<StridedShard>(sharding.placements[mesh_dim]);
    }
    if (strided && !std::is_sorted(entry.mesh_dims.begin(), entry.mesh_dims.end()))
      return Error(ErrorCode::kUnsupported,
                   "a shard_order reorders a dimension that a _StridedShard cuts")
          .found(fmt::format("tensor dimension {}", entry.tensor_dim));
  }
  for (std::size_t m = 0; m < seen.size(); ++m)
    if (!seen[m] && sharded_dim(sharding.placements[m]))
      return corrupt("a shard_order leaves out a mesh dimension").found(std::to_string(m));
  return {};
}

}  // namespace

Status check_sharding(const Sharding& sharding) {
  if (!sharding.mesh) return Error(ErrorCode::kInternal, "a sharding has no mesh");
  if (sharding.placements.size() != sharding.mesh->shape().size())
    return corrupt("the number of placements is not the number of mesh dimensions")
        .expected(std::to_string(sharding.mesh->shape().size()))
        .found(std::to_string(sharding.placements.size()));
  if (!element_count(sharding.shape))
    return corrupt("a global size is negative, or the element count overflows")
        .found(to_string(sharding.shape));
  SHARDKIT_TRY(check_placements(sharding));
  SHARDKIT_TRY(check_partials(sharding.placements));
  return check_shard_order(sharding);
}

std::vector<Intervals> local_intervals(const Sharding& sharding, const Dims& coordinate,
                                       CutOrder order) {
  std::vector<Intervals> dims(sharding.shape.size());
  for (std::size_t d = 0; d < dims.size(); ++d)
    dims[d] = intervals_after(sharding.shape[d], cuts_of(sharding, d, order), coordinate);
  return dims;
}

Dims local_shape(const Sharding& sharding, const Dims& coordinate, CutOrder order) {
  Dims shape = sharding.shape;
  for (std::size_t d = 0; d < shape.size(); ++d)
    shape[d] = size_after(sharding.shape[d], cuts_of(sharding, d, order), coordinate);
  return shape;
}

}  // namespace shardkit
