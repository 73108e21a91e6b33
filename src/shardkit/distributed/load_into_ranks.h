// load_into_ranks(): a checkpoint of any world size into the state dicts of running ranks.
#pragma once

#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/collective/process_group.h"
#include "shardkit/io/file_system.h"
#include "shardkit/state/value.h"

namespace shardkit {

struct LoadIntoRanksOptions {
  /// Casts float64, float32, float16 and bfloat16 into each other where the local tensor has
  /// another dtype than the checkpoint (PyTorch casts whatever there is). Else that is an error.
  bool convert_floats = false;
};

struct LoadIntoRanksReport {
  /// Tensors of the checkpoint that this rank's state does not have, in the checkpoint's order.
  std::vector<std::string> unused;
};

/// Fills the tensors of a rank's state dict from a checkpoint, whatever ranks, meshes and
/// placements wrote it. Collective: all ranks of `group`, whose ranks the meshes name, each with
/// its own state; ranks may have different tensors (pipeline stages), but for DTensors that they
/// share.
///
/// A DTensor gets its boxes, a plain tensor the whole; both in place, with their own strides. A
/// meta tensor is replaced by one in memory of its own. A DTensor on a mesh without this rank, and
/// what is no tensor, stays as it is. Of a checkpoint's replicas the one with the lowest rank is
/// read; Partial addends are reduced as in a merge, and so are adapters that the catalog folds in
/// (CatalogTensor::fold).
///
/// Each rank reads its own boxes alone, straight into place where nothing is cast or reduced. Where
/// a box's rows lie scattered in a file, gaps of less than 4 KiB between them are read along: that
/// costs less than a call for each.
///
/// @param catalog  the checkpoint (open_checkpoint()); ranks of one process may share it. On disks
///                 of several hosts it may be copies, or each host's own replicas. Its names are
///                 without wrapper names, and so must those of `local` be.
/// @param local    REQUIRES: what ranks of one process fill shares no memory, nor does it with what
///                 a catalog made of tensors in memory holds
///
/// Errors, the same on all ranks; the first three before a byte is written:
/// - kNotFound: the checkpoint lacks tensors of a rank's state; all of them are listed
/// - kInvalidArgument, kUnsupported, kLimit: as in distribute.h
/// - kIncomplete: a tensor of the checkpoint is not whole (prove_whole()) or was guessed together
///   (CatalogTensor::guessed; open_checkpoint() with kConcat or kReplicate says what it is), local
///   shapes that the placements do not explain, or ranks whose files of one name differ in size or
///   in the CRC of their zip directory
/// - kIo, kNotFound: a file cannot be read. Tensors in memory then hold unspecified bytes, and
///   nothing else of the local states has changed. So it is after a kPeer, and after the
///   kInvalidArgument of tied tensors that the checkpoint has different elements for.
///
/// Memory beside the new tensors: the later ones of those that are tied (one view of one memory),
/// some MiB a rank, and with folds what a FoldReader holds. Cost: three exchanges, and the bytes of
/// the boxes; with folds also one factor whole and the other's rows, of DoRA the whole rows.
Result<LoadIntoRanksReport> load_into_ranks(FileSystem& fs, const Catalog& catalog, Dict& local,
                                            ProcessGroup& group,
                                            const LoadIntoRanksOptions& options = {});

}  // namespace shardkit
