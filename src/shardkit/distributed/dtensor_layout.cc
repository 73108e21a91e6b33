// Deciding by the local shapes of all members.
#include <algorithm>
#include <utility>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/checkpoint/rank_order.h"
#include "shardkit/checkpoint/read_alike.h"
#include "shardkit/distributed/dtensor_layout_internal.h"
#include "shardkit/transfer/element_range.h"

namespace shardkit::internal {
namespace {

Result<RankOrder> decide_rank_order(const std::shared_ptr<const Sharding>& sharding,
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
  if (const auto evidence = order_evidence(members)) return *evidence;
  if (element_count(sharding->shape) == 0 || ranks_read_alike(*sharding))
    return RankOrder::kProcessGroup;
  return Error(ErrorCode::kIncomplete,
               "the device mesh's ranks are in an order in which PyTorch's ranks read different "
               "tensors, and the local shapes do not tell who holds what")
      .found(to_string(*sharding->mesh));
}

// The rank at each coordinate by which a shard is held. No two ranks are at one: order_evidence()
// takes no such order, and where two are, ranks_read_alike() does not hold.
Result<std::shared_ptr<const DeviceMesh>> as_held(const Sharding& sharding, RankOrder order) {
  const DeviceMesh& mesh = *sharding.mesh;
  if (order == RankOrder::kMeshArray) return sharding.mesh;
  const Dims strides = contiguous_strides(mesh.shape());
  std::vector<std::int64_t> ranks(mesh.ranks().size(), -1);
  for (const std::int64_t rank : mesh.ranks()) {
    const std::int64_t cell = position_of(shard_coordinate(sharding, rank, order), strides);
    ranks[static_cast<std::size_t>(cell)] = rank;
  }
  SHARDKIT_ASSIGN(DeviceMesh held, DeviceMesh::make(mesh.device_type(), mesh.shape(),
                                                    std::move(ranks), mesh.dim_names()));
  return std::make_shared<const DeviceMesh>(std::move(held));
}

}  // namespace

Result<DTensorLayout> DTensorLayout::decide(std::shared_ptr<const Sharding> sharding,
                                            std::span<const Dims> local_shapes) {
  SHARDKIT_ASSIGN(const RankOrder rank_order, decide_rank_order(sharding, local_shapes));
  std::vector<LocalShape> known;
  for (std::size_t i = 0; i < local_shapes.size(); ++i)
    known.push_back(
        {shard_coordinate(*sharding, sharding->mesh->ranks()[i], rank_order), local_shapes[i]});
  DTensorLayout layout;
  SHARDKIT_ASSIGN(layout.order_, decide_cut_order(*sharding, known));
  SHARDKIT_ASSIGN(layout.mesh_, as_held(*sharding, rank_order));
  layout.sharding_ = std::move(sharding);
  return layout;
}

std::vector<BoxPair> DTensorLayout::boxes(std::int64_t rank) const {
  return cut_into_boxes(local_intervals(*sharding_, *mesh_->coordinate_of(rank), order_));
}

}  // namespace shardkit::internal
