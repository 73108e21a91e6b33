// Merging: an FSDP checkpoint to a Hugging Face model folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/io/staged_folder.h"
#include "shardkit/merge/decide_output.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

struct MergeOptions : OutputChoices {
  std::string local_dir;   ///< the checkpoint: see discover_checkpoint
  std::string target_dir;  ///< the folder to appear
  std::string hf_folder;   ///< empty: `huggingface/` beside the shards, if it is there
  ExistingTarget existing = ExistingTarget::kRefuse;
  Durability durability = Durability::kSynced;
  TransferOptions transfer;  ///< threads, memory, progress
};

struct OutputFile {
  std::string name;  ///< below the target
  std::uint64_t bytes = 0;
};

struct MergeReport {
  std::string checkpoint;            ///< the folder that was found
  std::int64_t world_size = 0;
  std::string target;                ///< absolute
  std::vector<OutputFile> weights;   ///< in the order of their names
  std::vector<std::string> sidecars; ///< the other files, index and manifest among them
  std::optional<DType> config_dtype; ///< as written into config.json
  PlanSummary summary;
  std::uint64_t blocks_kept = 0;     ///< taken over from a run that was killed
  std::vector<std::string> dropped_ties;   ///< aliases left out
  std::vector<std::string> skipped;        ///< entries that are no tensors
  std::vector<std::string> notes;          ///< what was decided on the way
  std::vector<std::string> warnings;       ///< what a person should look at
};

/// Merges a checkpoint into a model folder that transformers loads, or leaves nothing behind.
///
/// Opens and joins all ranks, proves the plan, then streams; see ARCHITECTURE.md for the steps. A
/// run that was killed leaves a stage that the same call takes up; see docs/publish.md.
///
/// @error of every step; nothing appears at the target then, and no input is ever touched
Result<MergeReport> merge_fsdp_checkpoint(FileSystem& fs, const MergeOptions& options);

/// What merge_fsdp_checkpoint() would do: everything up to the proven plan. Reads no tensor bytes
/// and writes nothing.
///
/// What only the bytes can tell is assumed and noted: that tied tensors are equal, and that plain
/// tensors alone are chunks.
/// @error as merge_fsdp_checkpoint(), of the steps that are taken
Result<MergeReport> plan_fsdp_merge(FileSystem& fs, const MergeOptions& options);

}  // namespace shardkit
