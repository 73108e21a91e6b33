// Discovery: which folder of a training run holds the shards, and which files they are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// One FSDP checkpoint in verl's layout (verl/utils/checkpoint/fsdp_checkpoint_manager.py): one
/// file a rank, and what stands beside them; in one folder, or in several that hosts kept for
/// themselves.
struct CheckpointFolder {
  std::string path;                       ///< the first folder
  std::vector<std::string> more_folders;  ///< the others
  std::int64_t world_size = 0;
  std::vector<std::string> rank_files;       ///< paths, by rank; empty where the file is missing
  std::vector<std::int64_t> missing_ranks;   ///< ascending; only where they are allowed
  std::optional<std::int64_t> fsdp_version;  ///< as fsdp_config.json says
  /// "huggingface" beside the shards; of several that beside rank 0's file, which verl's rank 0
  /// writes, else the first.
  std::optional<std::string> hf_folder;
  std::vector<std::string> other_hf_folders;  ///< those of the other folders
  std::vector<std::string> notes;             ///< what was guessed or left aside, for people
};

/// What becomes of a checkpoint some of whose ranks have no file.
enum class MissingRanks {
  kRefused,
  kAllowed,  ///< open_checkpoint() decides: the others may hold copies of all that is missing
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
Result<CheckpointFolder> discover_checkpoint(FileSystem& fs, const std::string& path,
                                             MissingRanks missing = MissingRanks::kRefused);

/// The same of a checkpoint whose files lie in several folders, each found as above: hosts that
/// wrote to disks of their own. A rank's file may lie in several of them if the bytes are equal,
/// which is then read and compared.
///
/// @param paths  at least one; the same folder may come twice
/// @error as above; kIncomplete two folders hold different files of a rank, fsdp_config.json of
///        other world sizes or versions of FSDP, or lie below global_step_N of other N
Result<CheckpointFolder> discover_checkpoint(FileSystem& fs, std::span<const std::string> paths,
                                             MissingRanks missing);

/// kIncomplete: which ranks there should be, which were found and which are missing.
Error missing_ranks_error(const CheckpointFolder& folder);

/// Ranks as people write them: "0-3, 7".
std::string rank_list(const std::vector<std::int64_t>& sorted_ranks);

}  // namespace shardkit
