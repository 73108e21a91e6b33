// From what the ranks say of one tensor to its pieces: one function for each kind of tensor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/layout/sharding.h"
#include "shardkit/tensor/accumulate.h"
#include "shardkit/tensor/tensor.h"

namespace shardkit {

enum class RankOrder : int;  // rank_order.h

/// How a local tensor lies in its storage: the same for most ranks and many tensors.
struct ViewLayout {
  Dims shape;
  Dims strides;

  friend bool operator==(const ViewLayout&, const ViewLayout&) = default;
};

/// A rank's local tensor, without the dtype that all ranks share.
struct RankView {
  std::int32_t rank = 0;
  const ViewLayout* layout = nullptr;  ///< outlives the view
  std::int64_t offset = 0;             ///< elements
  std::shared_ptr<const Storage> storage;
};

/// The ranks whose DTensors name one mesh.
struct MeshGroup {
  std::shared_ptr<const Sharding> sharding;
  std::vector<RankView> ranks;
};

/// A ShardedTensor's shard on a rank.
struct RankShard {
  Box box;
  RankView view;
};

/// The same operation, for who reduces.
Accumulation to_accumulation(ReduceOp op);

/// Each fills pieces, replicas and (for DTensors) reduction, divisor and addends of `tensor`, whose
/// name, dtype and shape are set. Views were checked by check_view().

/// Meshes of several groups are submeshes whose members replicate each other.
///
/// @param order       which decides where is_out_of_order(); see rank_order.h
/// @param world_size  ranks of the checkpoint; mesh members lie below it
/// @param missing     ranks that could not tell, ascending; replicas they have a part in are left
///                    out
/// @param most_pieces  of all tensors together; those made are taken from it. A few words of a file
///                    (StridedShards of a high split factor) may ask for many
/// @error kIncomplete a mesh member told of another mesh or of no tensor, a local shape is not
///        what the box rule says, the order of cutting cannot be decided, or
///        no replica is left
/// @error kLimit      more than `most_pieces`
Status make_dtensor_pieces(std::vector<MeshGroup> groups, std::int64_t world_size,
                           std::span<const std::int64_t> missing, RankOrder order,
                           std::size_t& most_pieces, CatalogTensor& tensor);

/// Shards of the same box on several ranks are replicas.
/// @error kIncomplete a shard's size is not its metadata's
Status make_sharded_tensor_pieces(std::vector<RankShard> shards, CatalogTensor& tensor);

/// Every rank holds the whole. @error kIncomplete a rank's shape differs
Status make_replicated_pieces(std::vector<RankView> ranks, CatalogTensor& tensor);

/// Every rank holds a chunk of dimension 0, in rank order; sets the shape of `tensor`.
/// @error kIncomplete shapes that do not join
Status make_concatenated_pieces(std::vector<RankView> ranks, CatalogTensor& tensor);

}  // namespace shardkit
