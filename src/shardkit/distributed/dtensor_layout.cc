// Deciding by the local shapes of all members.
#include "shardkit/distributed/dtensor_layout_internal.h"

#include <utility>

#include "shardkit/checkpoint/rank_order.h"

namespace shardkit::internal {
namespace {

RankOrder decide_rank_order(const std::shared_ptr<const Sharding>& sharding,
                            std::span<const Dims> local_shapes) {
  if (!is_out_of_order(*sharding)) return RankOrder::kMeshArray;
  std::vector<ViewLayout> layouts;
  for (const Dims& shape : local_shapes) layouts.push_back({shape, {}});
  MeshGroup members{sharding, {}};
  for (std::size_t i = 0; i < local_shapes.size(); ++i) {
    RankView view;
    view.rank = static_cast<std::int32_t>(sharding->mesh->ranks()[i]);
    view.layout = &layouts[i];
    members.ranks.push_back(std::move(view));
  }
  return order_evidence(members).value_or(RankOrder::kProcessGroup);
}

}  // namespace

Result<DTensorLayout> DTensorLayout::decide(std::shared_ptr<const Sharding> sharding,
                                            std::span<const Dims> local_shapes) {
  const RankOrder rank_order = decide_rank_order(sharding, local_shapes);
  std::vector<LocalShape> known;
  for (std::size_t i = 0; i < local_shapes.size(); ++i)
    known.push_back({shard_coordinate(*sharding, sharding->mesh->ranks()[i], rank_order),
                     local_shapes[i]});
  DTensorLayout layout;
  SHARDKIT_ASSIGN(layout.order_, decide_cut_order(*sharding, known));
  layout.by_group_position_ = rank_order == RankOrder::kProcessGroup;
  layout.sharding_ = std::move(sharding);
  return layout;
}

std::vector<BoxPair> DTensorLayout::boxes(std::int64_t rank) const {
  const RankOrder order =
      by_group_position_ ? RankOrder::kProcessGroup : RankOrder::kMeshArray;
  return cut_into_boxes(
      local_intervals(*sharding_, shard_coordinate(*sharding_, rank, order), order_));
}

}  // namespace shardkit::internal
