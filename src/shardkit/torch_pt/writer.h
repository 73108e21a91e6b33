// write_pt(): a tree of values as a .pt file that torch.load reads; for tests and benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/state/value.h"

namespace shardkit {

struct PtWriteOptions {
  /// Gives the bytes of a storage from `offset` on, in ascending order. Null: storages in memory
  /// are written, and others are an error.
  std::function<Status(const Storage& storage, std::uint64_t offset, std::span<std::byte> out)>
      fill = {};
  /// Leave storages as holes in the file: zeros that take no room, their CRC not recorded. So that
  /// a terabyte can be simulated. Ranks of meshes are still written.
  bool holes = false;
  /// The rank in whose name the file is written (DeviceMesh._rank). Nothing: each mesh's first.
  std::optional<std::int64_t> rank = {};
};

/// Writes what torch.save of PyTorch 2.13 writes for the same tree: plain values, tensors, and
/// DTensors with meshes of form C (docs/formats/torch_pt.md). Tensors of a Storage share a record.
///
/// @param file  empty; not synced and not closed
/// @error kUnsupported ShardedTensor or Opaque values; kInvalidArgument a storage without bytes;
///        kIo, and what `fill` returns
Status write_pt(WritableFile& file, const Value& root, const PtWriteOptions& options = {});

}  // namespace shardkit
