// Reading a pickled DeviceMesh, in any of the three forms that PyTorch 2.4 to 2.14 write.
#pragma once

#include "shardkit/base/result.h"
#include "shardkit/layout/device_mesh.h"
#include "shardkit/torch_pt/objects.h"
#include "shardkit/torch_pt/tensor_reader.h"

namespace shardkit {

/// Most ranks that a mesh may have.
inline constexpr std::int64_t kMaxMeshRanks = 1 << 20;

/// A DeviceMesh instance as a mesh.
///
/// The forms, told apart by their attributes (docs/formats/torch_pt.md):
/// A (to 2.9): `mesh`, the rank tensor. B (2.10 to 2.12): `_layout` with `shape` and `stride`, and
/// `_rank_map`. C (from 2.13): `_layout.axes`, each with shape and stride, and `_rank_map`. The
/// ranks may be a tensor, whose bytes are read, or ints. A slice needs `_rank`, or as in 2.10 the
/// `_root_mesh` with `_coordinate_on_dim`. Other attributes are not needed;
/// `_flatten_rank_map`, and `_coordinate_on_dim` of `_rank`, must agree where they are there.
///
/// @error kUnsupported none of the forms; kCorrupt the parts contradict each other; kLimit
Result<DeviceMesh> read_mesh(PtObjects& objects, TensorReader& tensors, ObjectId mesh);

}  // namespace shardkit
