// Targets: the tensors of a rank's state dict that are to be filled, and which boxes go into them.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/distributed/dtensor_layout_internal.h"
#include "shardkit/distributed/joint_forms.h"
#include "shardkit/distributed/tensor_info.h"
#include "shardkit/state/value.h"

namespace shardkit::internal {

/// Where each text key of a dict stands. The first of equal ones counts.
using KeyIndex = std::unordered_map<std::string, std::size_t>;
KeyIndex index_keys(const Dict& dict);

/// A tensor of the local state that is to be filled with its boxes of a whole tensor.
struct Target {
  std::size_t tensor = 0;  ///< index into the list of whole tensors
  std::size_t item = 0;    ///< index into the local state's items
  Value value;             ///< Tensor or DTensor; in memory
  bool fresh = false;      ///< allocated here, and not in the local state yet
  /// The place among targets of an earlier one that is the same view of the same memory (tied
  /// tensors); `value` is then in memory apart, and the two must become equal.
  std::optional<std::size_t> twin = {};

  const Tensor& local() const;
};

/// What may differ between a whole tensor and its target.
enum class DTypes { kEqual, kFloatsMayDiffer };

/// The targets that the local state has among some whole tensors, in their order.
///
/// An entry that is missing, None, or a DTensor on a mesh without this rank is no target; but None
/// is one for a tensor without dimensions. A meta tensor gets memory, and so does a whole tensor
/// where the entry is none: PyTorch replaces such an entry, too. The local state is not changed.
///
/// @error kInvalidArgument another shape or dtype, a mesh with ranks outside the group, a tensor in
///        a file, elements that share memory; kUnsupported a ShardedTensor or a Partial placement;
///        as check_sharding(), check_view() and make_cpu_tensor(). The tensor is named.
Result<std::vector<Target>> find_targets(const Dict& local, const KeyIndex& keys,
                                         std::span<const NamedTensorInfo> tensors,
                                         const ProcessGroup& group, DTypes dtypes);

/// What all ranks are about to fill, agreed on, and the boxes that each keeps.
class JointTargets {
 public:
  /// Collective; every rank with its targets, or the reason why it cannot go on.
  ///
  /// @error the same on all ranks: as JointForms::exchange(); as DTensorLayout::decide(), where the
  ///        local shapes of a mesh's ranks are not what its placements make of the whole shape
  static Result<JointTargets> agree(ProcessGroup& group, std::span<const NamedTensorInfo> tensors,
                                    const Result<std::vector<Target>>& mine);

  /// Which boxes of a whole tensor a rank keeps, and where in its target; nothing if it has none.
  std::vector<BoxPair> boxes(const NamedTensorInfo& tensor, int rank) const;

  /// Dtype and shape of a rank's target; null if it has none.
  const Tensor* local_form(const std::string& name, int rank) const;

 private:
  explicit JointTargets(JointForms forms) : forms_(std::move(forms)) {}
  Status decide_layouts(int group_size);

  JointForms forms_;
  /// Of DTensors: by name, then rank. The members of a mesh share one.
  std::map<std::string, std::map<int, std::shared_ptr<const DTensorLayout>>> layouts_;
};

/// That a full state holds something else than a tensor in its memory.
Error not_whole(const Value& value);

/// A new contiguous tensor with the same elements.
/// @error as first_element(), make_unfilled_cpu_tensor()
Result<Tensor> copy_of(const Tensor& tensor);

/// Copies boxes of a whole tensor in memory into a target.
void copy_boxes(const Tensor& whole, std::span<const BoxPair> boxes, const Tensor& local);

/// Checks that the tensors that targets are filled from are in memory, and that no target shares
/// memory with any source, be it that of another rank's target alone: it could change before it is
/// read. A target that is the very view that it is filled from stays as it is.
///
/// @param sources  by Target::tensor
/// @error as first_element(); kInvalidArgument memory is shared. The tensor is named.
Status check_sources(std::span<const Tensor> sources, std::span<const Target> targets,
                     std::span<const NamedTensorInfo> tensors);

/// Whether targets that are one tensor are to be filled from equal ones.
/// @param sources  by Target::tensor; in memory @error kInvalidArgument, both named
Status check_twin_sources(std::span<const Tensor> sources, std::span<const Target> targets,
                          std::span<const NamedTensorInfo> tensors);

/// The same after all are filled, by what has come. @error as check_twin_sources()
Status check_twins(std::span<const Target> targets, std::span<const NamedTensorInfo> tensors);

/// Puts the fresh tensors into the local state.
void install(std::vector<Target> targets, Dict& local);

}  // namespace shardkit::internal
