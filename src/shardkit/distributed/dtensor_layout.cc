// Deciding by the local shapes of all members.
#include "shardkit/distributed/dtensor_layout_internal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "shardkit/base/checked_math.h"
#include "shardkit/checkpoint/rank_order.h"

namespace shardkit::internal {
namespace {

bool moves_elements(const Placement& placement) {
  return sharded_dim(placement) || std::holds_alternative<Partial>(placement);
}

using MeshDimsByTensorDim = std::map<std::int64_t, std::vector<std::size_t>>;

// The order in which mesh dimensions cut each tensor dimension, first cut first; empty: left to
// right. A StridedShard cuts after as many shards as its split factor says, if there is such a
// place for all (torch 2.13: _dtensor_spec.py _maybe_convert_StridedShard_to_shard_order).
MeshDimsByTensorDim orders_of_cutting(const Sharding& sharding) {
  MeshDimsByTensorDim orders;
  for (const ShardOrder& order : sharding.shard_order)
    for (const std::int64_t d : order.mesh_dims)
      orders[order.tensor_dim].push_back(static_cast<std::size_t>(d));
  if (!orders.empty()) return orders;
  for (std::size_t d = sharding.placements.size(); d-- > 0;) {
    const auto tensor_dim = sharded_dim(sharding.placements[d]);
    if (!tensor_dim) continue;
    const auto* strided = std::get_if<StridedShard>(&sharding.placements[d]);
    const std::int64_t wanted = strided ? strided->split_factor : 1;
    std::vector<std::size_t>& order = orders[*tensor_dim];
    std::int64_t shards = 1;
    auto place = order.begin();
    while (place != order.end() && shards != wanted) shards *= sharding.mesh->shape()[*place++];
    if (shards != wanted) return {};
    order.insert(place, d);
  }
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

// Whether PyTorch's ranks all read the same tensor, if they hold the shards by their positions in
// the process groups: it works along the lines of the mesh array, whose ranks must be at one
// position of each dimension that is still to be gathered.
bool ranks_read_alike(const Sharding& sharding) {
  const DeviceMesh& mesh = *sharding.mesh;
  const Dims strides = contiguous_strides(mesh.shape());
  std::vector<Dims> positions;
  for (const std::int64_t rank : mesh.ranks())
    positions.push_back(*mesh.group_position_of(rank));
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

// The rank at each coordinate by which a shard is held.
Result<std::shared_ptr<const DeviceMesh>> as_held(const Sharding& sharding, RankOrder order) {
  const DeviceMesh& mesh = *sharding.mesh;
  if (order == RankOrder::kMeshArray) return sharding.mesh;
  const Dims strides = contiguous_strides(mesh.shape());
  std::vector<std::int64_t> ranks(mesh.ranks().size(), -1);
  for (const std::int64_t rank : mesh.ranks()) {
    const Dims coordinate = shard_coordinate(sharding, rank, order);
    std::int64_t cell = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) cell += coordinate[d] * strides[d];
    std::int64_t& taken = ranks[static_cast<std::size_t>(cell)];
    if (taken >= 0)
      return Error(ErrorCode::kIncomplete,
                   fmt::format("ranks {} and {} of the device mesh hold the same shard, and nobody "
                               "another one", taken, rank))
          .found(to_string(mesh));
    taken = rank;
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
    known.push_back({shard_coordinate(*sharding, sharding->mesh->ranks()[i], rank_order),
                     local_shapes[i]});
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
