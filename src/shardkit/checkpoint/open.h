// Opening a checkpoint: every rank's file read (names and layouts, no tensor bytes) and joined.
#pragma once

#include <cstdint>
#include <string>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/checkpoint/catalog_builder.h"
#include "shardkit/checkpoint/discover.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// Reads the files of all ranks and joins them.
///
/// Reads each file's zip directory and pickle; time and memory grow with the number of tensors,
/// not with their size.
///
/// @error kIncomplete a file says that another rank wrote it
/// @error kUnsupported FSDP2 over tensor parallelism by PyTorch 2.4 (torch_pt/origin.h)
/// @error as read_pt and CatalogBuilder. Where several files cannot be read, all are named.
Result<Catalog> open_checkpoint(FileSystem& fs, const CheckpointFolder& folder,
                                PlainTensors plain = PlainTensors::kAuto);

}  // namespace shardkit
