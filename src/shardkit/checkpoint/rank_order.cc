#include "shardkit/checkpoint/rank_order.h"

#include <algorithm>
#include <vector>

namespace shardkit {
namespace {

/// Whether the ranks' coordinates are all different: else some shards would be held by nobody.
bool are_distinct(std::vector<LocalShape> ranks) {
  const auto before = [](const LocalShape& a, const LocalShape& b) {
    return std::lexicographical_compare(a.coordinate.begin(), a.coordinate.end(),
                                        b.coordinate.begin(), b.coordinate.end());
  };
  std::sort(ranks.begin(), ranks.end(), before);
  return std::adjacent_find(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
           return a.coordinate == b.coordinate;
         }) == ranks.end();
}

bool fits(const MeshGroup& group, RankOrder order) {
  std::vector<LocalShape> known;
  for (const RankView& view : group.ranks)
    if (group.sharding->mesh->coordinate_of(view.rank))
      known.push_back({shard_coordinate(*group.sharding, view.rank, order), view.layout->shape});
  return are_distinct(known) && decide_cut_order(*group.sharding, known).ok();
}

}  // namespace

bool is_out_of_order(const Sharding& sharding) {
  for (std::size_t d = 0; d < sharding.placements.size(); ++d)
    if (sharded_dim(sharding.placements[d]) && !sharding.mesh->counts_upwards(d)) return true;
  return false;
}

Dims shard_coordinate(const Sharding& sharding, std::int64_t rank, RankOrder order) {
  Dims coordinate = *sharding.mesh->coordinate_of(rank);
  if (order == RankOrder::kMeshArray) return coordinate;
  const Dims position = *sharding.mesh->group_position_of(rank);
  for (std::size_t d = 0; d < coordinate.size(); ++d)
    if (sharded_dim(sharding.placements[d])) coordinate[d] = position[d];
  return coordinate;
}

std::optional<RankOrder> order_evidence(const MeshGroup& group) {
  const bool by_group = fits(group, RankOrder::kProcessGroup);
  const bool by_array = fits(group, RankOrder::kMeshArray);
  if (by_group == by_array) return std::nullopt;
  return by_group ? RankOrder::kProcessGroup : RankOrder::kMeshArray;
}

}  // namespace shardkit
