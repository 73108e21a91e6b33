// Catalog: every tensor of a checkpoint, and where its pieces lie on the ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/checkpoint/fold.h"
#include "shardkit/layout/box.h"
#include "shardkit/layout/sharding.h"
#include "shardkit/tensor/accumulate.h"
#include "shardkit/tensor/tensor.h"

namespace shardkit {

/// A box of a tensor, and the strided bytes that hold it on one rank.
///
/// The pieces of one (replica, addend) form a layer. The layer of replica 0 is what a merge
/// writes; a tensor is proven whole when each layer covers it exactly once (plan/proof.h).
struct Piece {
  Box box;                  ///< in the global tensor; never empty
  Dims strides;             ///< of the source, elements
  std::int64_t offset = 0;  ///< where the box's first element lies in the storage, elements
  std::shared_ptr<const Storage> storage;
  std::int32_t rank = 0;
  std::int32_t replica = 0;  ///< 0: the copy that holds the lowest rank
  std::int32_t addend = 0;   ///< Partial placements: which addend, in mesh order
};

enum class TensorKind { kDTensor, kShardedTensor, kPlain };

/// "DTensor", "ShardedTensor", "Tensor".
std::string_view to_string(TensorKind kind);

/// One tensor of the checkpoint, joined over the ranks.
struct CatalogTensor {
  std::string name;  ///< without wrapper names
  TensorKind kind = TensorKind::kPlain;
  DType dtype = DType::kFloat32;
  Dims shape;
  /// Of the tensor in a file that is written, where `shape` has more dimensions for the same
  /// elements in the same order (merge/saved_catalog.h). None: `shape`.
  std::optional<Dims> written_shape;
  /// Of a DTensor: of the mesh that holds the lowest rank (submeshes differ in ranks alone).
  std::shared_ptr<const Sharding> sharding;
  std::optional<Accumulation> reduction;  ///< how addends combine; none: there is one addend
  std::int64_t divisor = 1;  ///< of the sum: the sizes of mesh dimensions of Partial(avg)
  std::int32_t addends = 1;
  std::int32_t replicas = 1;
  std::int32_t missing_replicas = 0;  ///< copies in which missing ranks have a part
  bool concatenated = false;          ///< plain tensors that were taken for chunks of dimension 0
  /// So taken by PlainTensors::kAuto: they may as well be replicas, and then the tensor is wrong.
  bool guessed = false;
  /// Where it is made of tensors of other names: the first of them. See merge/saved_catalog.h.
  std::string made_of;
  std::vector<Piece> pieces;         ///< by replica, then addend, then box offset
  std::shared_ptr<const Fold> fold;  ///< what is added to what the pieces hold; null: nothing

  std::int64_t numel() const;
  /// Of the global tensor, dense, as stored.
  std::int64_t bytes() const;
  const Dims& shape_to_write() const { return written_shape ? *written_shape : shape; }
};

/// "[S(0)] on 4 (fsdp)", "ShardedTensor of 4 shards", "replicated on 4 ranks": for people.
std::string describe_layout(const CatalogTensor& tensor);

/// An entry of the state dict that is no tensor.
struct SkippedEntry {
  std::string name;
  std::string kind;  ///< "dict", "None", ...
};

/// Two names whose tensors look at the same bytes on every rank.
struct SharedStorage {
  std::size_t first = 0;   ///< index into Catalog::tensors
  std::size_t second = 0;  ///< greater than first
};

/// A rank's file as it was when it was read.
struct SourceFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  /// Of its zip directory: names the content cheaply. 0: nothing does, it is no zip file or one
  /// without CRCs.
  std::uint32_t directory_crc = 0;
};

/// The join of all ranks' state dicts, in the order of the lowest rank's file.
struct Catalog {
  std::int64_t world_size = 0;
  /// Ranks that were not there; replicas of theirs are left out of the tensors.
  std::vector<std::int64_t> missing_ranks;
  std::vector<SourceFile> files;  ///< by rank, without the missing ones
  std::vector<CatalogTensor> tensors;
  std::vector<SkippedEntry> skipped;
  std::vector<SharedStorage> shared;
  std::vector<std::string> warnings;  ///< what a person should look at
};

}  // namespace shardkit
