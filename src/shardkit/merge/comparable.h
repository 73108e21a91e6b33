// open_comparable(): whatever holds tensors (a checkpoint, a model folder, a file), to be compared.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/checkpoint/catalog_builder.h"
#include "shardkit/compare/compare_catalogs.h"
#include "shardkit/hf/config.h"
#include "shardkit/hf/dtype_choice.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/lora_summary.h"

namespace shardkit {

struct Comparable {
  std::string path;  ///< the folder or file that was found
  std::string kind;  ///< "FSDP checkpoint of 4 ranks", "model folder (safetensors)": for people
  std::shared_ptr<const Catalog> catalog;
  std::optional<hf::ModelConfig> config;
  std::vector<CatalogTensor> adapter;  ///< LoRA's, under the names by which peft saves them
  std::optional<LoraSummary> lora;     ///< of a checkpoint with an adapter
  std::vector<std::string> notes;
};

/// A folder that discover_checkpoint() knows is a checkpoint; all else is for read_weights(). Of
/// one with a LoRA adapter the catalog is that of the base model, under clean names.
///
/// @param paths      several: the folders of one checkpoint, as discover_checkpoint() joins them
/// @param hf_folder  of a checkpoint: as for open_merge_source
/// @param plain      of a checkpoint; as a merge, what is ambiguous is refused
/// @error as discover_checkpoint, open_merge_source, check_concatenated, take_lora_apart,
///        read_weights, catalog_of
Result<Comparable> open_comparable(FileSystem& fs, std::span<const std::string> paths,
                                   const std::string& hf_folder = {},
                                   PlainTensors plain = PlainTensors::kAuto);

/// A side that holds experts or names as they are in memory is compared as transformers saves it,
/// by its own config or, without one, the other's; a note tells. Where both have a LoRA adapter,
/// those are compared, too; where one has, a note tells that it was left aside.
///
/// @param dtype  to what both are cast first, but for the scales of 8-bit floats, which a merge
/// keeps
///               as stored; kAuto: what the first config of the two says
/// @error as hf::resolve, compare_catalogs
Result<Comparison> compare(FileSystem& fs, const Comparable& first, const Comparable& second,
                           const hf::DTypeChoice& dtype, const ComparisonOptions& options);

}  // namespace shardkit
