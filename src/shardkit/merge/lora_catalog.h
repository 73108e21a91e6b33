// LoraCatalog: a checkpoint's tensors as a plain model has them, and its adapter apart or folded
// in.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/lora_adapter.h"
#include "shardkit/merge/lora_summary.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

struct LoraCatalog {
  std::shared_ptr<const Catalog> model;  ///< the checkpoint's own where no tensor has a LoRA name
  std::vector<CatalogTensor> adapter;    ///< under the names by which peft saves them
  std::string adapter_config;            ///< text of an adapter_config.json; empty: no adapter
  std::optional<LoraSummary> summary;    ///< none: no adapter in the checkpoint
  /// Where MergeSource::base_folder has the model: modules of the adapter that it lacks by name.
  std::vector<std::string> not_in_base;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
};

/// Takes a checkpoint with LoRA names apart, as docs/lora.md says: the model under clean names,
/// with the trained copies of modules_to_save instead of the originals, and the adapter beside it;
/// with LoraMode::kMerge as folds of the model's tensors. Of another checkpoint the catalog as it
/// is. Reads no tensor bytes; what changes is the metadata's copy.
///
/// @error kCorrupt     two tensors get one name
/// @error kIncomplete  of a merge: alpha is unknown, or there is no base weight to fold into; a
/// base
///                     model from elsewhere has a module of the adapter in another shape
/// @error kUnsupported of a merge: an adapter that is more than W + scale B A
/// @error as find_lora_adapter and fold_shape
Result<LoraCatalog> take_lora_apart(FileSystem& fs, const MergeSource& source,
                                    const LoraChoice& choice);

}  // namespace shardkit
