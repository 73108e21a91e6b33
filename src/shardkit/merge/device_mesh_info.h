// The meshes of a checkpoint: which tensors lie on which, and into how many shards they are cut.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/layout/device_mesh.h"
#include "shardkit/layout/placement.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// DTensors that lie on one mesh by the same placements.
struct DeviceMeshInfo {
  std::shared_ptr<const DeviceMesh> mesh;  ///< ranks, shape and names of the dimensions
  std::vector<Placement> placements;       ///< one for each mesh dimension
  std::vector<std::string> tensors;        ///< names, in the order of the state dict
};

/// The meshes of a whole checkpoint, in the order in which its tensors show them. Of equal
/// submeshes on other ranks each tensor shows the one that holds the lowest rank. ShardedTensors
/// and plain tensors have no mesh, and none is made up for them.
std::vector<DeviceMeshInfo> extract_device_mesh_info(const Catalog& catalog);

/// The same of one rank's state dict, with the meshes that this rank is on.
/// @error kUnsupported the root is no dict with string keys
Result<std::vector<DeviceMeshInfo>> extract_device_mesh_info(const Value& state_dict);

/// What a mesh does to the tensors on it. The three numbers multiply to the ranks of the mesh.
struct ShardConfiguration {
  std::int64_t total_shards = 1;  ///< parts that each copy is cut into; some may be empty
  std::int64_t replicas = 1;      ///< copies
  std::int64_t addends = 1;       ///< Partial: tensors to be reduced to one
  Dims mesh_shape;
};

ShardConfiguration calculate_shard_configuration(const DeviceMeshInfo& info);

/// "27 tensors as [R, S(0)] on 2x2 (ddp, fsdp) of ranks 0-3: 2 shards, 2 replicas", for people.
std::string to_string(const DeviceMeshInfo& info);

}  // namespace shardkit
