// MergeOptions: which checkpoint is merged, into which folder, and how.
#pragma once

#include <string>
#include <vector>

#include "shardkit/io/staged_folder.h"
#include "shardkit/merge/decide_output.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

struct MergeOptions : OutputChoices {
  std::string local_dir;                     ///< the checkpoint: see discover_checkpoint
  std::vector<std::string> more_local_dirs;  ///< folders that hold the rest of its files
  std::string target_dir;                    ///< the folder to appear
  std::string hf_folder;  ///< empty: `huggingface/` beside the shards, if it is there
  /// The model that was trained: names and shapes are compared with its; its weights, as
  /// open_merge_source takes them. May be empty.
  std::string base_model_dir;
  bool strict_names = false;  ///< refuse what differs from it, instead of telling
  ExistingTarget existing = ExistingTarget::kRefuse;
  Durability durability = Durability::kSynced;
  TransferOptions transfer;  ///< threads, memory, progress
};

}  // namespace shardkit
