// Opening a checkpoint: every rank's file read (names and layouts, no tensor bytes) and joined.
#pragma once

#include <cstdint>
#include <string>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/checkpoint/catalog_builder.h"
#include "shardkit/checkpoint/discover.h"
#include "shardkit/io/file_system.h"
#include "shardkit/torch_pt/reader.h"

namespace shardkit {

/// One rank's file, read, and as it was just before: a change meanwhile shows later.
struct RankFile {
  PtFile content;
  SourceFile source;
};

/// Reads the file of one rank: names and layouts, no tensor bytes.
///
/// @param rank     0 <= rank < folder.world_size
/// @param options  as read_pt takes them
/// @error kInvalidArgument no such rank; kIncomplete the file is missing, or says that another rank
///        wrote it
/// @error as read_pt
Result<RankFile> read_rank_file(FileSystem& fs, const CheckpointFolder& folder, std::int64_t rank,
                                const PtReadOptions& options = {});

/// Reads the files of all ranks and joins them. Of a checkpoint with missing ranks those that are
/// there, which must hold a full set of shards; which copies could not be compared is a warning.
///
/// Reads each file's zip directory and pickle, several files at once (checkpoint/rank_reader.h);
/// time and memory grow with the number of tensors, not with their size. Memory: less than 256
/// bytes a piece, and while files are read what two of the largest pickles take, some 5 times their
/// size each, or 64 MiB more than one where that is more; however many threads there are.
///
/// Names and layouts alone do not tell whether a checkpoint of plain tensors holds chunks or
/// replicas. What is guessed then is marked (CatalogTensor::guessed), and whoever reads such a
/// tensor must refuse it or look at the bytes first: a merge does as check_concatenated()
/// (merge/plain_tensors.h), load_into_ranks() refuses. kReplicate and kConcat are the user's word.
///
/// @error kUnsupported FSDP2 over tensor parallelism by PyTorch 2.4 (torch_pt/origin.h)
/// @error as read_rank_file, CatalogBuilder and missing_ranks_error. Where several files cannot be
/// read, all are named.
Result<Catalog> open_checkpoint(FileSystem& fs, const CheckpointFolder& folder,
                                PlainTensors plain = PlainTensors::kAuto);

}  // namespace shardkit
