#include "shardkit/merge/device_mesh_info.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardkit {
namespace {

void add(const Sharding& sharding, const std::string& name, std::vector<DeviceMeshInfo>& infos) {
  // Most tensors lie as the one before them.
  const auto same = std::find_if(infos.rbegin(), infos.rend(), [&](const DeviceMeshInfo& info) {
    return info.placements == sharding.placements &&
           (info.mesh == sharding.mesh || *info.mesh == *sharding.mesh);
  });
  if (same != infos.rend()) {
    same->tensors.push_back(name);
  } else {
    infos.push_back({sharding.mesh, sharding.placements, {name}});
  }
}

}  // namespace

std::vector<DeviceMeshInfo> extract_device_mesh_info(const Catalog& catalog) {
  std::vector<DeviceMeshInfo> infos;
  for (const CatalogTensor& tensor : catalog.tensors)
    if (tensor.sharding) add(*tensor.sharding, tensor.name, infos);
  return infos;
}

Result<std::vector<DeviceMeshInfo>> extract_device_mesh_info(const Value& state_dict) {
  const auto* dict = state_dict.get_if<Dict>();
  if (dict == nullptr)
    return Error(ErrorCode::kUnsupported, "the state dict is not a dict")
        .found(kind_name(state_dict));
  std::vector<DeviceMeshInfo> infos;
  for (const auto& [key, value] : dict->items) {
    const auto* name = key.get_if<std::string>();
    if (name == nullptr)
      return Error(ErrorCode::kUnsupported, "a key of the state dict is not a string")
          .found(kind_name(key));
    if (const auto* tensor = value.get_if<DTensor>()) add(*tensor->sharding, *name, infos);
  }
  return infos;
}

ShardConfiguration calculate_shard_configuration(const DeviceMeshInfo& info) {
  ShardConfiguration configuration;
  configuration.mesh_shape = info.mesh->shape();
  // A mesh lists its ranks, so that these products do not overflow.
  for (std::size_t d = 0; d < info.placements.size(); ++d) {
    const std::int64_t size = configuration.mesh_shape[d];
    if (std::holds_alternative<Replicate>(info.placements[d])) {
      configuration.replicas *= size;
    } else if (std::holds_alternative<Partial>(info.placements[d])) {
      configuration.addends *= size;
    } else {
      configuration.total_shards *= size;
    }
  }
  return configuration;
}

std::string to_string(const DeviceMeshInfo& info) {
  std::string placements;
  for (const Placement& placement : info.placements)
    placements += (placements.empty() ? "" : ", ") + to_string(placement);
  const ShardConfiguration configuration = calculate_shard_configuration(info);
  std::string text = fmt::format("{} {} as [{}] on {}: {} {}", info.tensors.size(),
                                 info.tensors.size() == 1 ? "tensor" : "tensors", placements,
                                 to_string(*info.mesh), configuration.total_shards,
                                 configuration.total_shards == 1 ? "shard" : "shards");
  if (configuration.replicas > 1) text += fmt::format(", {} replicas", configuration.replicas);
  if (configuration.addends > 1) text += fmt::format(", {} addends", configuration.addends);
  return text;
}

}  // namespace shardkit
