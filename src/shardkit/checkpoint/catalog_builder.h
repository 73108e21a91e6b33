// CatalogBuilder: joins the ranks' state dicts, one after another, into a Catalog.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/state/value.h"

namespace shardkit {

/// What plain tensors are, in a checkpoint of several ranks.
enum class PlainTensors {
  kAuto,       ///< replicas beside any DTensor or ShardedTensor, else taken for chunks of
               ///< dimension 0: CatalogTensor::guessed
  kReplicate,  ///< every rank holds the whole tensor
  kConcat,     ///< every rank holds a chunk of dimension 0; 0-d tensors are replicas
};

/// Collects what each rank holds and checks that the ranks agree: the same names, kinds, dtypes,
/// global shapes and placements; meshes whose members each told of themselves; local shapes that
/// the box rule explains (layout/sharding.h).
///
/// A rank may lack a DTensor only where no mesh of that tensor has it as a member (a parameter on
/// a submesh). Ranks of different submeshes hold replicas of each other.
///
/// Ranks may be missing where the others hold a full set of shards: copies that missing ranks have
/// a part in are left out, and at least one must be left of every tensor, on each mesh that it is
/// on. What proves that missing ranks hold copies alone are the meshes: some DTensor must lie on
/// one of all ranks of the world, each DTensor on meshes that name the missing ranks (parallel
/// experts may have one name on several meshes), and the ranks that are there must all hold the
/// same names; else (pipeline stages, FSDP1 without a mesh, plain tensors alone) missing ranks may
/// hold tensors of their own. Chunks of plain tensors have no copies.
///
/// Keeps views, never tensor bytes: a state dict may be dropped once it was added.
class CatalogBuilder {
 public:
  /// @param world_size  >= 1; every rank below it must be added, each once, before finish()
  /// @param missing     ranks that are not added, ascending
  explicit CatalogBuilder(std::int64_t world_size, std::vector<std::int64_t> missing = {});
  ~CatalogBuilder();
  CatalogBuilder(CatalogBuilder&&) noexcept;

  /// @param file  the rank's file, for messages
  /// @error kCorrupt       a view leaves its storage, or two names become one without wrappers
  /// @error kIncomplete    it contradicts a rank added before
  /// @error kUnsupported   the root is no dict with string keys, or tensors hide in containers
  Status add(std::int64_t rank, const std::string& file, const Value& root);

  /// @error kIncomplete  ranks lack a tensor or disagree; the message names tensor and ranks;
  ///        what missing ranks hold is not all in the others
  /// @error kLimit  StridedShards that make more than 64 pieces of each DTensor of each rank
  Result<Catalog> finish(PlainTensors plain) &&;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardkit
