// Distribution without traffic: agree, then copy boxes.
#include "shardkit/distributed/distribute.h"

#include <utility>
#include <vector>

#include "shardkit/distributed/targets_internal.h"
#include "shardkit/tensor/memory_range.h"

namespace shardkit {
namespace {

using internal::Target;

struct Work {
  std::vector<NamedTensorInfo> tensors;
  std::vector<Tensor> sources;
  std::vector<Target> targets;
  std::vector<std::pair<std::string, Value>> others;  // no targets: set as they are

  void add(const std::string& name, const Tensor& tensor) {
    tensors.push_back({name, {tensor.shape, tensor.dtype}});
    sources.push_back(tensor);
  }

  Status find_targets(const Dict& local, const internal::KeyIndex& keys,
                      const ProcessGroup& group) {
    SHARDKIT_ASSIGN(targets,
                    internal::find_targets(local, keys, tensors, group, internal::DTypes::kEqual));
    SHARDKIT_TRY(internal::check_sources(sources, targets, tensors));
    return internal::check_twin_sources(sources, targets, tensors);
  }
};

Result<Work> work_on_keys(const Dict& full, std::span<const std::string> names, const Dict& local,
                          const ProcessGroup& group) {
  Work work;
  const auto full_keys = internal::index_keys(full);
  for (const std::string& name : names) {
    const auto key = full_keys.find(name);
    if (key == full_keys.end())
      return Error(ErrorCode::kNotFound, "the full state has no such key").of_tensor(name);
    const Value& value = full.items[key->second].second;
    const auto* tensor = value.get_if<Tensor>();
    if (!tensor) return internal::not_whole(value).of_tensor(name);
    work.add(name, *tensor);
  }
  SHARDKIT_TRY(work.find_targets(local, internal::index_keys(local), group));
  return work;
}

Result<Work> work_on_all(const Dict& full, const Dict& local, const ProcessGroup& group) {
  Work work;
  const auto local_keys = internal::index_keys(local);
  for (const auto& [key, value] : full.items) {
    const auto* name = key.get_if<std::string>();
    if (!name)
      return Error(ErrorCode::kInvalidArgument, "a key of the full state is no text")
          .found(kind_name(key));
    if (value.get_if<DTensor>() || value.get_if<ShardedTensor>())
      return internal::not_whole(value).of_tensor(*name);
    const auto* tensor = value.get_if<Tensor>();
    if (!tensor) {
      work.others.emplace_back(*name, value);
    } else if (local_keys.contains(*name) || !tensor->shape.empty()) {
      work.add(*name, *tensor);
    } else {
      SHARDKIT_ASSIGN(Tensor copy, internal::copy_of(*tensor));
      work.others.emplace_back(*name, std::move(copy));
    }
  }
  SHARDKIT_TRY(work.find_targets(local, local_keys, group));
  return work;
}

Status carry_out(Result<Work> work, Dict& local, ProcessGroup& group) {
  Result<std::vector<Target>> mine = std::vector<Target>();
  std::span<const NamedTensorInfo> tensors;
  if (work.ok()) {
    mine = std::move(work->targets);
    tensors = work->tensors;
  } else {
    mine = std::move(work).error();
  }
  SHARDKIT_ASSIGN(const auto joint, internal::JointTargets::agree(group, tensors, mine));
  for (const Target& target : *mine) {
    const Tensor& source = work->sources[target.tensor];
    if (is_same_view(source, target.local())) continue;
    internal::copy_boxes(source, joint.boxes(tensors[target.tensor], group.rank()), target.local());
  }
  internal::install(*std::move(mine), local);
  const auto keys = internal::index_keys(local);
  for (auto& [name, value] : work->others) {
    if (const auto key = keys.find(name); key != keys.end()) {
      local.items[key->second].second = std::move(value);
    } else {
      local.items.emplace_back(Value(name), std::move(value));
    }
  }
  return {};
}

}  // namespace

Status distribute_tensors(const Dict& full, std::span<const std::string> keys, Dict& local,
                          ProcessGroup& group) {
  return carry_out(work_on_keys(full, keys, local, group), local, group);
}

Status distribute_state_dict(const Dict& full, Dict& local, ProcessGroup& group) {
  return carry_out(work_on_all(full, local, group), local, group);
}

}  // namespace shardkit
