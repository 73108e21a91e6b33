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
  /// @param sharding      REQUIRES: check_sharding(*sharding).ok()
  /// @param local_shapes  in the order of the mesh's ranks; believed in nothing
  /// @error as decide_cut_order()
  static Result<DTensorLayout> decide(std::shared_ptr<const Sharding> sharding,
                                      std::span<const Dims> local_shapes);

  /// What a member holds; none where it holds no element. REQUIRES: a member
  std::vector<BoxPair> boxes(std::int64_t rank) const;

 private:
  DTensorLayout() = default;

  std::shared_ptr<const Sharding> sharding_;
  bool by_group_position_ = false;
  CutOrder order_ = CutOrder::kSpec;
};

}  // namespace shardkit::internal
