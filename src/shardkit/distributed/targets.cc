// Finding what is to be filled, agreeing on it, and the copies themselves.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/distributed/mesh_groups.h"
#include "shardkit/distributed/targets_internal.h"
#include "shardkit/state/compare.h"
#include "shardkit/state/memory.h"
#include "shardkit/state/pair_walk_internal.h"
#include "shardkit/tensor/memory_range.h"
#include "shardkit/tensor/strided_copy.h"
#include "shardkit/transfer/element_range.h"

namespace shardkit::internal {
namespace {

StatePath path_of(const std::string& name) { return StatePath{{name}}; }

bool is_meta(const Tensor& tensor) { return tensor.storage && tensor.storage->is_meta(); }

Status check_info(const TensorInfo& whole, const TensorInfo& target, DTypes dtypes) {
  if (whole.size != target.size)
    return Error(ErrorCode::kInvalidArgument, "the local tensor has another shape than the whole")
        .expected(to_string(whole.size))
        .found(to_string(target.size));
  if (whole.dtype == target.dtype) return {};
  if (dtypes == DTypes::kFloatsMayDiffer && is_castable_float(whole.dtype) &&
      is_castable_float(target.dtype))
    return {};
  return Error(ErrorCode::kInvalidArgument, "the local tensor has another dtype than the whole")
      .expected(torch_name(whole.dtype))
      .found(torch_name(target.dtype));
}

/// A tensor that may be written: the same, or one with memory in place of a meta tensor. Memory is
/// not cleared: boxes() cover a target, and one that is not filled to its end is dropped.
Result<Tensor> writable(const Tensor& tensor, bool& fresh) {
  fresh = is_meta(tensor);
  if (fresh) return make_unfilled_cpu_tensor(tensor.dtype, tensor.shape);
  SHARDKIT_TRY(first_element(tensor));
  if (has_own_places(tensor)) return tensor;
  return Error(ErrorCode::kInvalidArgument, "elements of the tensor to be written share memory")
      .found(
          fmt::format("shape {}, strides {}", to_string(tensor.shape), to_string(tensor.strides)));
}

Status check_placements(const Sharding& sharding) {
  SHARDKIT_TRY(check_sharding(sharding));
  for (std::size_t d = 0; d < sharding.placements.size(); ++d)
    if (std::holds_alternative<Partial>(sharding.placements[d]) && sharding.mesh->shape()[d] > 1)
      return Error(ErrorCode::kUnsupported, "a whole tensor is not split into Partial addends")
          .found(to_string(sharding.placements[d]));
  return {};
}

/// False: the entry is no target.
Result<bool> make_target(const Value& entry, const TensorInfo& info, const ProcessGroup& group,
                         DTypes dtypes, Target& target) {
  if (const auto* tensor = entry.get_if<Tensor>()) {
    SHARDKIT_TRY(check_info(info, {tensor->shape, tensor->dtype}, dtypes));
    SHARDKIT_ASSIGN(Tensor local, writable(*tensor, target.fresh));
    target.value = std::move(local);
    return true;
  }
  if (const auto* dtensor = entry.get_if<DTensor>()) {
    if (!dtensor->sharding || !dtensor->sharding->mesh)
      return Error(ErrorCode::kInvalidArgument, "a DTensor has no sharding or no mesh");
    SHARDKIT_TRY(check_ranks(*dtensor->sharding->mesh, group));
    if (!dtensor->sharding->mesh->coordinate_of(group.rank())) return false;
    SHARDKIT_TRY(check_placements(*dtensor->sharding));
    SHARDKIT_TRY(check_info(info, {dtensor->sharding->shape, dtensor->local.dtype}, dtypes));
    SHARDKIT_ASSIGN(Tensor local, writable(dtensor->local, target.fresh));
    target.value = DTensor{std::move(local), dtensor->sharding};
    return true;
  }
  if (entry.get_if<ShardedTensor>())
    return Error(ErrorCode::kUnsupported, "a ShardedTensor cannot be filled").expected("a DTensor");
  if (entry.get_if<None>() && !info.size.empty()) return false;
  SHARDKIT_ASSIGN(Tensor local, make_unfilled_cpu_tensor(info.dtype, info.size));
  target.value = std::move(local);
  target.fresh = true;
  return true;
}

/// Sets targets apart that are the same tensor as an earlier one.
Status part_twins(std::vector<Target>& targets) {
  std::vector<const Tensor*> locals;
  for (const Target& target : targets) locals.push_back(&target.local());
  const auto ties = find_ties(locals);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (!ties[i]) continue;
    Target& target = targets[i];
    target.twin = ties[i];
    SHARDKIT_ASSIGN(Tensor apart,
                    make_unfilled_cpu_tensor(target.local().dtype, target.local().shape));
    if (auto* dtensor = target.value.get_if<DTensor>())
      dtensor->local = std::move(apart);
    else
      target.value = std::move(apart);
  }
  return {};
}

/// @param first, second  what two targets in one memory are filled with, or its source
Status check_equal(const Tensor& first, const Tensor& second, const std::string& first_name,
                   const std::string& second_name) {
  SHARDKIT_ASSIGN(const auto difference, find_difference(first, second));
  if (!difference) return {};
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("the local tensor lies in the memory of '{}', which is filled with "
                           "other elements",
                           first_name))
      .of_tensor(second_name);
}

}  // namespace

KeyIndex index_keys(const Dict& dict) {
  KeyIndex index;
  index.reserve(dict.items.size());
  for (std::size_t i = 0; i < dict.items.size(); ++i)
    if (const auto* key = dict.items[i].first.get_if<std::string>()) index.try_emplace(*key, i);
  return index;
}

const Tensor& Target::local() const {
  const auto* dtensor = value.get_if<DTensor>();
  return dtensor ? dtensor->local : *value.get_if<Tensor>();
}

Result<std::vector<Target>> find_targets(const Dict& local, const KeyIndex& keys,
                                         std::span<const NamedTensorInfo> tensors,
                                         const ProcessGroup& group, DTypes dtypes) {
  std::vector<Target> targets;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto key = keys.find(tensors[i].name);
    if (key == keys.end()) continue;
    Target target{i, key->second, {}, false};
    const Value& entry = local.items[key->second].second;
    auto made = make_target(entry, tensors[i].info, group, dtypes, target);
    if (!made.ok()) return std::move(made).error().of_tensor(tensors[i].name);
    if (*made) targets.push_back(std::move(target));
  }
  SHARDKIT_TRY(part_twins(targets));
  return targets;
}

Result<JointTargets> JointTargets::agree(ProcessGroup& group,
                                         std::span<const NamedTensorInfo> tensors,
                                         const Result<std::vector<Target>>& mine) {
  Result<std::vector<TensorForm>> forms = std::vector<TensorForm>();
  if (mine.ok()) {
    for (const Target& target : *mine)
      forms->push_back({path_of(tensors[target.tensor].name), target.value});
  } else {
    forms = mine.error();
  }
  SHARDKIT_ASSIGN(JointForms joint, JointForms::exchange(group, std::move(forms)));
  JointTargets targets(std::move(joint));
  SHARDKIT_TRY(targets.decide_layouts(group.size()));
  return targets;
}

Status JointTargets::decide_layouts(int group_size) {
  for (const StatePath& path : forms_.paths()) {
    const std::string name = to_string(path);
    auto& layouts = layouts_[name];
    for (int rank = 0; rank < group_size; ++rank) {
      const Value* form = forms_.find(path, rank);
      const auto* dtensor = form ? form->get_if<DTensor>() : nullptr;
      if (!dtensor || layouts.contains(rank)) continue;
      const auto& members = dtensor->sharding->mesh->ranks();
      // All members of the mesh are there, with the same placements: JointForms saw to it.
      std::vector<Dims> shapes;
      for (const std::int64_t member : members)
        shapes.push_back(
            forms_.find(path, static_cast<int>(member))->get_if<DTensor>()->local.shape);
      auto layout = DTensorLayout::decide(dtensor->sharding, shapes);
      if (!layout.ok()) return std::move(layout).error().of_tensor(name);
      const auto shared = std::make_shared<const DTensorLayout>(*std::move(layout));
      for (const std::int64_t member : members) layouts[static_cast<int>(member)] = shared;
    }
  }
  return {};
}

std::vector<BoxPair> JointTargets::boxes(const NamedTensorInfo& tensor, int rank) const {
  const Value* form = forms_.find(path_of(tensor.name), rank);
  if (!form || element_count(tensor.info.size) == 0) return {};
  if (!form->get_if<DTensor>())
    return {{Dims(tensor.info.size.size(), 0), whole(tensor.info.size)}};
  return layouts_.at(tensor.name).at(rank)->boxes(rank);
}

const Tensor* JointTargets::local_form(const std::string& name, int rank) const {
  const Value* form = forms_.find(path_of(name), rank);
  return form ? local_tensors(*form).front() : nullptr;
}

Error not_whole(const Value& value) {
  return Error(ErrorCode::kInvalidArgument, "the full state must hold whole tensors")
      .found(kind_name(value));
}

Result<Tensor> copy_of(const Tensor& tensor) {
  SHARDKIT_ASSIGN(const std::byte* source, first_element(tensor));
  SHARDKIT_ASSIGN(Tensor copy, make_unfilled_cpu_tensor(tensor.dtype, tensor.shape));
  if (source)
    strided_copy(item_bytes(tensor.dtype), tensor.shape, source, tensor.strides,
                 copy.storage->memory()->data, copy.strides);
  return copy;
}

void copy_boxes(const Tensor& whole, std::span<const BoxPair> boxes, const Tensor& local) {
  const std::int64_t item = item_bytes(whole.dtype);
  const std::byte* const source = *first_element(whole);
  std::byte* const target = *first_element(local);
  for (const BoxPair& box : boxes)
    strided_copy(item, box.global.shape,
                 source + position_of(box.global.offset, whole.strides) * item, whole.strides,
                 target + position_of(box.local_offset, local.strides) * item, local.strides);
}

Status check_sources(std::span<const Tensor> sources, std::span<const Target> targets,
                     std::span<const NamedTensorInfo> tensors) {
  std::vector<MemoryRange> written;
  for (const Target& target : targets) {
    const Tensor& source = sources[target.tensor];
    if (auto first = first_element(source); !first.ok())
      return std::move(first).error().of_tensor(tensors[target.tensor].name);
    if (!is_same_view(source, target.local())) written.push_back(memory_range(target.local()));
  }
  const MemoryRanges ranges(std::move(written));
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (first_element(sources[i]).ok() && ranges.overlap(memory_range(sources[i])))
      return Error(ErrorCode::kInvalidArgument,
                   "a tensor to be written overlaps the one to be copied")
          .of_tensor(tensors[i].name);
  return {};
}

Status check_twin_sources(std::span<const Tensor> sources, std::span<const Target> targets,
                          std::span<const NamedTensorInfo> tensors) {
  for (const Target& target : targets) {
    if (!target.twin) continue;
    const std::size_t first = targets[*target.twin].tensor;
    SHARDKIT_TRY(check_equal(sources[first], sources[target.tensor], tensors[first].name,
                             tensors[target.tensor].name));
  }
  return {};
}

Status check_twins(std::span<const Target> targets, std::span<const NamedTensorInfo> tensors) {
  for (const Target& target : targets) {
    if (!target.twin) continue;
    const Target& first = targets[*target.twin];
    SHARDKIT_TRY(check_equal(first.local(), target.local(), tensors[first.tensor].name,
                             tensors[target.tensor].name));
  }
  return {};
}

void install(std::vector<Target> targets, Dict& local) {
  for (Target& target : targets)
    if (target.fresh) local.items[target.item].second = std::move(target.value);
}

}  // namespace shardkit::internal
