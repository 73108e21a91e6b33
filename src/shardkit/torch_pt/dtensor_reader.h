// DTensorReader: how a pickled DTensor lies on its mesh.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "shardkit/base/result.h"
#include "shardkit/layout/sharding.h"
#include "shardkit/torch_pt/mesh_reader.h"
#include "shardkit/torch_pt/objects.h"
#include "shardkit/torch_pt/tensor_reader.h"

namespace shardkit {

/// The parts of a DTensor: where its local tensor is, and its sharding.
struct DTensorParts {
  ObjectId local = pickle::kNoObject;
  std::shared_ptr<const Sharding> sharding;
};

/// Reads specs (torch/distributed/tensor/_dtensor_spec.py, DTensorSpec). Equal shardings of a file
/// are one object, and so are equal meshes.
class DTensorReader {
 public:
  DTensorReader(PtObjects& objects, TensorReader& tensors) : objects_(objects), tensors_(tensors) {}

  /// @param size   the DTensor's own, that is the global shape
  /// @param state  with the attributes _local_tensor and _spec
  /// @error kCorrupt parts are missing or contradict each other, or the spec means nothing
  ///        (check_sharding); kUnsupported a placement that shardkit does not know
  Result<DTensorParts> read(const Dims& size, ObjectId state);

 private:
  Result<std::shared_ptr<const Sharding>> sharding_of(ObjectId spec, const Dims& size);
  Result<std::shared_ptr<const DeviceMesh>> mesh_of(ObjectId mesh);
  Result<std::vector<Placement>> read_placements(ObjectId placements) const;
  Result<Placement> read_placement(ObjectId placement) const;
  Result<ReduceOp> read_reduce_op(ObjectId op) const;
  Status read_shard_order(const PtAttributes& spec, Sharding& sharding) const;

  PtObjects& objects_;
  TensorReader& tensors_;
  std::unordered_map<ObjectId, std::shared_ptr<const DeviceMesh>> mesh_of_object_;
  std::unordered_multimap<std::size_t, std::shared_ptr<const DeviceMesh>> meshes_;   // by hash
  std::unordered_multimap<std::size_t, std::shared_ptr<const Sharding>> shardings_;  // by hash
};

}  // namespace shardkit
