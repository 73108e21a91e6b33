// PtOrigin: what a file tells of the process that wrote it.
#pragma once

#include <cstdint>
#include <optional>

namespace shardkit {

struct PtOrigin {
  /// The rank, where a device mesh in the file tells: `_rank`, or the place at which
  /// `_coordinate_on_dim` says that the writer stands. All meshes of a file agree.
  std::optional<std::int64_t> rank;
  /// PyTorch 2.4 or older: its meshes have `_parent_mesh`. Its FSDP2 over tensor parallelism says
  /// (Shard(0), Shard(0)) of rows that were cut for tensor parallelism first
  /// (_composable/fsdp/_fsdp_param.py, torch 2.4); 2.5 brought _StridedShard for it.
  bool before_strided_shard = false;
};

}  // namespace shardkit
