// DTensorLayout: which boxes of a DTensor each member of its mesh holds, decided by all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/layout/box.h"
#include "shardkit/layout/sharding.h"

namespace shardkit::internal {

class DTensorLayout {
 public:
  /// Decides what a sharding leaves open, from the local shapes of all members together: the order
  /// of cutting (decide_cut_order()), and, where a mesh's ranks do not count upwards, by which
  /// order of ranks they hold their shards (checkpoint/rank_order.h); where the shapes do not tell,
  /// that of the process groups, by which PyTorch's full_tensor() gathers.
  ///
  /// But PyTorch gathers and reduces one mesh dimension after the other, along the lines of the
  /// mesh array. If a line's ranks hold shards of another dimension that is still to be gathered,
  /// its ranks end with different tensors. Then shapes alone can tell.
  ///
  /// @param sharding      REQUIRES: check_sharding(*sharding).ok()
  /// @param local_shapes  in the order of the mesh's ranks; believed in nothing
  /// @error as decide_cut_order(); kIncomplete both orders of ranks fit, and PyTorch's ranks do not
  ///        read the same tensor
  static Result<DTensorLayout> decide(std::shared_ptr<const Sharding> sharding,
                                      std::span<const Dims> local_shapes);

  /// What a member holds; none where it holds no element. REQUIRES: a member
  std::vector<BoxPair> boxes(std::int64_t rank) const;

  /// The mesh as its members hold the tensor: each stands at the coordinate by which it was given
  /// its shard. Its lines along Partial dimensions hold addends of the same elements. The
  /// sharding's own mesh, unless its ranks do not count upwards.
  const std::shared_ptr<const DeviceMesh>& mesh() const { return mesh_; }

 private:
  DTensorLayout() = default;

  std::shared_ptr<const Sharding> sharding_;
  std::shared_ptr<const DeviceMesh> mesh_;
  CutOrder order_ = CutOrder::kSpec;
};

}  // namespace shardkit::internal
