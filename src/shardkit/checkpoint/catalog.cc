#include "shardkit/checkpoint/catalog.h"

#include <fmt/format.h>

#include "shardkit/base/checked_math.h"

namespace shardkit {

std::string_view to_string(TensorKind kind) {
  switch (kind) {
    case TensorKind::kDTensor: return "DTensor";
    case TensorKind::kShardedTensor: return "ShardedTensor";
    case TensorKind::kPlain: return "Tensor";
  }
  return "Tensor";
}

std::int64_t CatalogTensor::numel() const { return element_count(shape).value_or(0); }

std::int64_t CatalogTensor::bytes() const { return numel() * item_bytes(dtype); }

std::string describe_layout(const CatalogTensor& tensor) {
  if (tensor.kind == TensorKind::kShardedTensor) {
    std::string text = fmt::format("{} shards", tensor.pieces.size());
    if (tensor.replicas > 1) text += fmt::format(", {} replicas", tensor.replicas);
    return text;
  }
  if (tensor.kind == TensorKind::kPlain) {
    if (tensor.concatenated) return fmt::format("chunks of {} ranks", tensor.pieces.size());
    return tensor.replicas > 1 ? fmt::format("copy on {} ranks", tensor.replicas) : "whole";
  }
  std::string placements;
  for (const Placement& placement : tensor.sharding->placements) {
    if (!placements.empty()) placements += ", ";
    placements += to_string(placement);
  }
  const DeviceMesh& mesh = *tensor.sharding->mesh;
  std::string text = fmt::format("[{}] on ", placements);
  for (std::size_t d = 0; d < mesh.shape().size(); ++d)
    text += fmt::format("{}{}", d > 0 ? "x" : "", mesh.shape()[d]);
  std::string names;
  for (const std::string& name : mesh.dim_names()) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? text : text + " (" + names + ")";
}

}  // namespace shardkit
