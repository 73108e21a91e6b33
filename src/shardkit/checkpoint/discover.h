// Discovery: which folder of a training run holds the shards, and which files they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// A folder of one FSDP checkpoint in verl's layout (verl/utils/checkpoint/
/// fsdp_checkpoint_manager.py): one file a rank, and what stands beside them.
struct CheckpointFolder {
  std::string path;
  std::int64_t world_size = 0;
  std::vector<std::string> rank_files;       ///< paths, by rank; complete
  std::optional<std::int64_t> fsdp_version;  ///< as fsdp_config.json says
  std::optional<std::string> hf_folder;      ///< "huggingface" beside the shards, if there is one
  std::vector<std::string> notes;            ///< what was guessed or left aside, for people
};

/// Finds the checkpoint at or below `path`: a run's root (latest_checkpointed_iteration.txt names
/// the step), a step's folder, a role's folder (actor, critic), or the folder of the shards.
///
/// fsdp_config.json decides the world size; where it is missing the file names do. Reads names and
/// small JSON files only.
///
/// @error kNotFound no shards there (the message says what the folder holds instead)
/// @error kInvalidArgument several choices, and no rule between them; all are listed
/// @error kIncomplete ranks are missing (all are listed) or doubled, two world sizes without
///        fsdp_config.json, or fsdp_config.json names one that has no files
/// @error kUnsupported another format (torch.distributed.checkpoint); kCorrupt a bad small file
Result<CheckpointFolder> discover_checkpoint(FileSystem& fs, const std::string& path);

/// Ranks as people write them: "0-3, 7".
std::string rank_list(const std::vector<std::int64_t>& sorted_ranks);

}  // namespace shardkit
