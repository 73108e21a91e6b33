// JointForms: what all ranks say of their tensors, compared before any element moves.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/state/state_path.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// A tensor of a rank's state and where it stands there.
struct TensorForm {
  StatePath path;
  Value form;  ///< Tensor, DTensor or ShardedTensor; its elements do not matter
};

/// The tensors of all ranks of a group, without their elements.
///
/// What must hold, does: the members of a DTensor's mesh all have it, with the same dtype, mesh,
/// placements, order of sharding and global shape; all ranks have a ShardedTensor, with the same
/// dtype, shape and shards. Ranks outside a DTensor's mesh may have what they like at its path, but
/// no mesh names a rank outside the group.
class JointForms {
 public:
  /// Collective; every rank with its own tensors, or the reason why it cannot go on.
  ///
  /// @param group    whose ranks the meshes name
  /// @param options  of the call, as text that must be the same on all ranks
  /// @return  the same on all ranks
  /// @error the same on all ranks: as exchange_messages(); kInvalidArgument ranks disagree, a mesh
  ///        names a rank outside the group, or two tensors of a rank have the same path; what
  ///        check_sharding() and check_view() say of a rank's own tensors. All name path and ranks.
  /// Cost: one exchange of some 100 bytes a tensor and rank; the memory of what all ranks say.
  static Result<JointForms> exchange(ProcessGroup& group, Result<std::vector<TensorForm>> mine,
                                     std::string_view options = {});

  /// The rank's tensor at a path; null if it has none there.
  const Value* find(const StatePath& path, int rank) const;

  /// All paths at which any rank has a tensor, in one order on all ranks: the order in which
  /// collective calls for them must be made.
  const std::vector<StatePath>& paths() const { return paths_; }

 private:
  struct Tensors {
    StatePath path;
    std::map<int, Value> by_rank;
  };

  Status add(int rank, Value tensors_of_rank);
  Status check(int group_size) const;

  std::map<std::string, Tensors> tensors_;  // by tuple_text(path)
  std::vector<StatePath> paths_;            // in the order of tensors_
};

}  // namespace shardkit
