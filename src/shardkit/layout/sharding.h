// The box rule: which global indices a rank holds of a tensor, for any mesh and placements.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/layout/box.h"
#include "shardkit/layout/device_mesh.h"
#include "shardkit/layout/placement.h"

namespace shardkit {

/// In which order the mesh dimensions that cut one tensor dimension do it.
struct ShardOrder {
  std::int64_t tensor_dim = 0;
  std::vector<std::int64_t> mesh_dims;  ///< first cut first

  friend bool operator==(const ShardOrder&, const ShardOrder&) = default;
};

/// How a global tensor lies on a mesh (torch/distributed/tensor/_dtensor_spec.py, DTensorSpec).
struct Sharding {
  std::shared_ptr<const DeviceMesh> mesh;
  std::vector<Placement> placements;    ///< one for each mesh dimension
  Dims shape;                           ///< of the global tensor
  std::vector<ShardOrder> shard_order;  ///< empty: placements apply left to right
};

/// Which of two readings of a sharding the bytes follow where they differ (uneven dimension, a
/// StridedShard before a Shard of the same dimension; DESIGN 1).
enum class CutOrder {
  kSpec,      ///< as the placements say: left to right, or as shard_order says
  kPhysical,  ///< as FSDP2 stores it: the plain Shards (tensor parallelism) cut first, then the
              ///< StridedShards cut what they left by the plain rule
};

/// The largest product of a tensor's split factors. FSDP2 writes the number of tensor-parallel
/// shards there; the limit bounds the intervals and boxes that a hostile file can ask for.
inline constexpr std::int64_t kMaxSplitFactor = 65536;

/// Checks what placements and shape must satisfy to mean anything: as many placements as mesh
/// dimensions, dims in range, split factors >= 1, a shard_order that lists exactly the sharding
/// mesh dimensions, Partial ops not mixed (sum with avg excepted).
///
/// @error kCorrupt a condition does not hold
/// @error kUnsupported Partial ops are mixed, or a shard_order reorders a dimension that a
///                     StridedShard cuts
/// @error kLimit the split factors multiply to more than kMaxSplitFactor
Status check_sharding(const Sharding& sharding);

/// The intervals of every tensor dimension that `coordinate` holds.
///
/// @param sharding    REQUIRES check_sharding(sharding).ok()
/// @param coordinate  one for each mesh dimension, 0 <= c < mesh size
/// @return            one list for each tensor dimension; the local shape is their sizes
///
/// Pure arithmetic. A list has at most as many intervals as the split factors multiply to.
std::vector<Intervals> local_intervals(const Sharding& sharding, const Dims& coordinate,
                                       CutOrder order = CutOrder::kSpec);

/// The sizes of local_intervals(), without making them: constant time for each placement.
Dims local_shape(const Sharding& sharding, const Dims& coordinate,
                 CutOrder order = CutOrder::kSpec);

/// A rank's recorded local shape, as evidence of the order its bytes follow.
struct LocalShape {
  Dims coordinate;
  Dims shape;
};

/// Decides which order the bytes follow from the recorded local shapes of the ranks that are
/// known, all together (one rank's shape may fit both while its rows differ).
///
/// Where every shard count divides its dimension both orders agree and kSpec is returned. A rank
/// that holds no element may record size 0 in a dimension where local_shape() has more: FSDP2 does,
/// where another dimension leaves the rank nothing.
///
/// @param sharding  REQUIRES check_sharding(sharding).ok()
/// @param known     coordinates inside the mesh; shapes from the files, believed in nothing
/// Cost: linear in `known`; where no shape decides, the mesh's coordinates are compared one by one.
///
/// @error kIncomplete a recorded shape fits neither order (the message names the coordinate),
///                    or both orders fit though they hold different elements
Result<CutOrder> decide_cut_order(const Sharding& sharding, std::span<const LocalShape> known);

}  // namespace shardkit
