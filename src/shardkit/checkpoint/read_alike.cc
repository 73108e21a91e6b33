#include "shardkit/checkpoint/read_alike.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/base/dims.h"
#include "shardkit/layout/implied_shard_order.h"

namespace shardkit {
namespace {

bool moves_elements(const Placement& placement) {
  return sharded_dim(placement) || std::holds_alternative<Partial>(placement);
}

using MeshDimsByTensorDim = std::map<std::int64_t, std::vector<std::size_t>>;

// The order in which mesh dimensions cut each tensor dimension, first cut first; empty: left to
// right.
MeshDimsByTensorDim orders_of_cutting(const Sharding& sharding) {
  const auto stored = sharding.shard_order.empty()
                          ? implied_shard_order(sharding, SplitFactors::kOrder)
                          : std::optional(sharding.shard_order);
  MeshDimsByTensorDim orders;
  if (!stored) return orders;
  for (const ShardOrder& order : *stored)
    for (const std::int64_t d : order.mesh_dims)
      orders[order.tensor_dim].push_back(static_cast<std::size_t>(d));
  return orders;
}

// Whether PyTorch gathers or reduces along `a` before `b`: what cut a dimension last first, the
// rest from the last mesh dimension to the first (torch 2.13: tensor/_redistribute.py).
bool is_done_before(const MeshDimsByTensorDim& orders, std::size_t a, std::size_t b) {
  for (const auto& [tensor_dim, dims] : orders) {
    const auto at_a = std::find(dims.begin(), dims.end(), a);
    const auto at_b = std::find(dims.begin(), dims.end(), b);
    if (at_a != dims.end() && at_b != dims.end()) return at_a > at_b;
  }
  return a > b;
}

}  // namespace

bool ranks_read_alike(const Sharding& sharding) {
  const DeviceMesh& mesh = *sharding.mesh;
  const Dims strides = contiguous_strides(mesh.shape());
  std::vector<Dims> positions;
  for (const std::int64_t rank : mesh.ranks()) positions.push_back(*mesh.group_position_of(rank));
  const auto have_one_position = [&](std::size_t line, std::size_t dim) {
    for (std::size_t cell = 0; cell < positions.size(); ++cell) {
      const auto c = static_cast<std::int64_t>(cell) / strides[line] % mesh.shape()[line];
      const std::size_t first = cell - static_cast<std::size_t>(c * strides[line]);
      if (positions[cell][dim] != positions[first][dim]) return false;
    }
    return true;
  };
  const MeshDimsByTensorDim orders = orders_of_cutting(sharding);
  for (std::size_t dim = 0; dim < strides.size(); ++dim) {
    if (!sharded_dim(sharding.placements[dim])) continue;
    for (std::size_t line = 0; line < strides.size(); ++line)
      if (line != dim && moves_elements(sharding.placements[line]) &&
          is_done_before(orders, line, dim) && !have_one_position(line, dim))
        return false;
  }
  return true;
}

}  // namespace shardkit
