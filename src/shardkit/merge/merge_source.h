// MergeSource: everything a merge reads, opened and joined, before any decision.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/checkpoint/catalog_builder.h"
#include "shardkit/checkpoint/discover.h"
#include "shardkit/hf/config.h"
#include "shardkit/hf/model_folder.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// A checkpoint and the Hugging Face folder that goes with it.
struct MergeSource {
  CheckpointFolder checkpoint;
  std::shared_ptr<const Catalog> catalog;
  std::optional<std::string> hf_folder;   ///< where sidecars come from; none: weights alone
  std::optional<hf::ModelConfig> config;  ///< of hf_folder's config.json, if it has one
  std::vector<hf::SidecarFile> sidecars;  ///< of hf_folder, config.json among them
  /// The folder of the weights, where the checkpoint holds LoRA tensors alone: they are those of
  /// before training.
  std::optional<std::string> base_folder;
};

/// Opens a checkpoint and its Hugging Face folder: the one given, or `huggingface/` beside the
/// shards. Reads metadata only.
///
/// @param hf_folder       empty: the default, which may be missing
/// @param base_model_dir  the model that was trained: its weights, where the shards hold LoRA
/// tensors
///                        alone, and its other files, where there is no other folder; may be empty
/// @error kIncomplete without hf_folder: two of the joined folders have different config.json
/// @error as open_checkpoint, hf::list_sidecars, hf::parse_config
Result<MergeSource> open_merge_source(FileSystem& fs, CheckpointFolder checkpoint,
                                      const std::string& hf_folder, PlainTensors plain,
                                      const std::string& base_model_dir = {});

}  // namespace shardkit
