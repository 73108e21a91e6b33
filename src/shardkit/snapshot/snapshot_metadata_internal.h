// SnapshotMetadata: what a snapshot's file holds beside names, dtypes, local shapes and bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/layout/sharding.h"

namespace shardkit::internal {

struct SnapshotMetadata {
  std::string save_id;  ///< the same in the files of all ranks
  int world_size = 1;
  int rank = 0;
  /// In the snapshot's order: name, and spec or null. Tensors that share a spec do so again.
  std::vector<std::pair<std::string, std::shared_ptr<const Sharding>>> tensors;
};

/// JSON, docs/snapshots.md. REQUIRES: specs have a mesh.
/// @error kLimit longer than metadata_from_json() takes
Result<std::string> to_json(const SnapshotMetadata& metadata);

/// Checks all that can be checked without the tensors: meshes, specs (check_sharding()), indices.
///
/// @error kCorrupt no such text; kUnsupported another version; kLimit too long; as check_sharding()
Result<SnapshotMetadata> metadata_from_json(std::string_view text);

}  // namespace shardkit::internal
