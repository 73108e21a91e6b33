// MeshGroups: the process groups of the lines and planes of device meshes, made before any walk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/layout/device_mesh.h"

namespace shardkit {

/// Some of a mesh's dimensions: bit d is dimension d.
using MeshDims = std::uint64_t;
static_assert(Dims::kMaxDims <= 64);

/// Checks that a process group has all ranks of a mesh.
/// @error kInvalidArgument
Status check_ranks(const DeviceMesh& mesh, const ProcessGroup& group);

/// The ranks that share all coordinates with `rank` but those of `dims`, in the row-major order of
/// the mesh array. Empty if the rank is no member. Linear in the mesh's size.
std::vector<int> ranks_along(const DeviceMesh& mesh, MeshDims dims, std::int64_t rank);

/// Process groups over parts of meshes. All are made at once, in an order on which the ranks agree,
/// whichever meshes each has: a walk over tensors cannot deadlock by making them in another order.
///
/// Equal lists of ranks share a group; the list of all ranks in their order is the world's own, and
/// costs nothing.
class MeshGroups {
 public:
  /// What a rank will ask group() for.
  struct Request {
    std::shared_ptr<const DeviceMesh> mesh;
    MeshDims dims = 0;
  };

  /// Collective over `world`; every rank with what its own tensors need. Requests for meshes
  /// without this rank are nothing.
  ///
  /// @param world     the group whose ranks the meshes name; must outlive this object
  /// @param requests  of this rank; or why it cannot go on, which all ranks then return
  /// @error kInvalidArgument a mesh has a rank outside the world; the same on all ranks. As
  ///        ProcessGroup.
  /// Cost: one exchange, and one split for every set of groups that have no rank in common.
  static Result<MeshGroups> make(ProcessGroup& world, Result<std::vector<Request>> requests);

  /// The group of ranks_along(mesh, dims, this rank), in that order.
  ///
  /// @error kInvalidArgument it was not asked for, or the rank is no member
  Result<ProcessGroup*> group(const DeviceMesh& mesh, MeshDims dims) const;

  /// Leaves all groups but the world: whoever waits there for this rank fails at once. For a rank
  /// that cannot go on.
  void leave() { made_.clear(); }

 private:
  explicit MeshGroups(ProcessGroup& world) : world_(&world) {}

  ProcessGroup* world_;
  std::map<std::vector<int>, std::unique_ptr<ProcessGroup>> made_;
};

}  // namespace shardkit
