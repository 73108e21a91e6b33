#include <cstdint>
#include <functional>
#include <variant>

#include "shardkit/base/hash.h"
#include "shardkit/torch_pt/sharding_hash_internal.h"

namespace shardkit {
namespace {

void mix(const Placement& placement, Hash& hash) {
  hash.mix(static_cast<std::int64_t>(placement.index()));
  hash.mix(sharded_dim(placement).value_or(-1));
  if (const auto* strided = std::get_if<StridedShard>(&placement)) hash.mix(strided->split_factor);
  if (const auto* partial = std::get_if<Partial>(&placement))
    hash.mix(static_cast<std::int64_t>(partial->op));
}

}  // namespace

std::size_t hash_of(const Sharding& sharding) {
  Hash hash;
  hash.mix(static_cast<std::int64_t>(std::hash<const DeviceMesh*>()(sharding.mesh.get())));
  hash.mix_all(sharding.shape);
  for (const Placement& placement : sharding.placements) mix(placement, hash);
  for (const ShardOrder& entry : sharding.shard_order) {
    hash.mix(entry.tensor_dim);
    hash.mix_all(entry.mesh_dims);
  }
  return hash.value();
}

}  // namespace shardkit
