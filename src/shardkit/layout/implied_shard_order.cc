// Reads the order of cutting off placements.
#include "shardkit/layout/implied_shard_order.h"

#include <cstdint>
#include <map>
#include <utility>
#include <variant>

namespace shardkit {

std::optional<std::vector<ShardOrder>> implied_shard_order(const Sharding& sharding,
                                                           SplitFactors meaning) {
  if (sharding.placements.size() != sharding.mesh->shape().size()) return std::nullopt;
  std::map<std::int64_t, std::vector<std::int64_t>> order;
  for (std::size_t m = sharding.placements.size(); m-- > 0;) {
    const auto dim = sharded_dim(sharding.placements[m]);
    if (!dim) continue;
    const auto* strided = std::get_if<StridedShard>(&sharding.placements[m]);
    const std::int64_t split_factor =
        strided && meaning == SplitFactors::kOrder ? strided->split_factor : 1;
    std::vector<std::int64_t>& mesh_dims = order[*dim];
    std::int64_t pieces = 1;  // of part of the mesh: no more than its ranks
    auto at = mesh_dims.begin();
    for (; pieces != split_factor && at != mesh_dims.end(); ++at)
      pieces *= sharding.mesh->shape()[static_cast<std::size_t>(*at)];
    if (pieces != split_factor) return std::nullopt;
    mesh_dims.insert(at, static_cast<std::int64_t>(m));
  }
  std::vector<ShardOrder> entries;
  for (auto& [dim, mesh_dims] : order) entries.push_back({dim, std::move(mesh_dims)});
  return entries;
}

}  // namespace shardkit
