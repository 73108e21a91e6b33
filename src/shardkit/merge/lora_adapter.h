// LoraAdapter: the adapter that a checkpoint holds, found by names and told of by files beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hf/lora_config.h"
#include "shardkit/hf/lora_name.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

enum class LoraMode {
  kAdapter,      ///< as verl: the base model, and the adapter in lora_adapter/ beside it
  kMerge,        ///< the adapter is folded into the base model
  kAdapterOnly,  ///< lora_adapter/ alone
};

/// "adapter", "merge", "adapter-only".
std::string_view to_string(LoraMode mode);

struct LoraChoice {
  LoraMode mode = LoraMode::kAdapter;
  std::string adapter;          ///< which of several; empty: there is one
  std::optional<double> alpha;  ///< where no file tells lora_alpha; > 0

  friend bool operator==(const LoraChoice&, const LoraChoice&) = default;
};

/// A module with an adapter. Numbers are indices into Catalog::tensors.
struct LoraModule {
  std::string name;  ///< in the plain model
  /// Of target_parameters: which one of the module's parameters has the adapter; empty: its weight.
  std::string parameter;
  std::int64_t experts = 0;  ///< that the parameter holds on its first dimension; 0: it is a matrix
  /// Whether the parameter is held as in x out, where it is known already.
  std::optional<bool> transposed;
  std::size_t a = 0;
  std::size_t b = 0;
  std::optional<std::size_t> bias;       ///< of lora_B
  std::optional<std::size_t> magnitude;  ///< of DoRA
  bool embedding = false;
  std::int64_t rank = 0;  ///< as the tensors have it

  std::string weight() const { return name + "." + (parameter.empty() ? "weight" : parameter); }
  /// What rank_pattern, alpha_pattern and targets name: the module, or the parameter in full.
  std::string target() const { return parameter.empty() ? name : weight(); }
};

/// One adapter of a checkpoint.
struct LoraAdapter {
  std::string name;                 ///< empty where names have none
  std::vector<LoraModule> modules;  ///< in the order of the state dict
  std::vector<std::size_t> copies;  ///< trained copies of modules_to_save
  std::vector<std::string> copied;  ///< the modules that they are of
  std::vector<std::string> others;  ///< names of the adapters that are left aside
  hf::LoraSettings settings;
};

/// The adapter that is chosen, with what adapter_config.json (in lora_adapter/, beside the shards
/// or in huggingface/; of a named adapter in a folder of its name there) and lora_train_meta.json
/// say. Nothing where no tensor has a LoRA name.
///
/// @param names  of Catalog::tensors, taken apart
/// @error kInvalidArgument several adapters and no choice, or a choice or alpha without any adapter
/// @error kNotFound        no adapter of the chosen name; all are listed
/// @error kIncomplete      half of a pair is missing, shapes that are no pair, ranks that are not
///                         those of the files, or files (or --lora-alpha) that contradict each
///                         other
/// @error kUnsupported     a tensor of an adapter of unknown form, or of another kind than LoRA
/// @error as find_parameters, read_whole_file, parse_adapter_config, parse_lora_train_meta
Result<std::optional<LoraAdapter>> find_lora_adapter(FileSystem& fs, const MergeSource& source,
                                                     const std::vector<hf::LoraName>& names,
                                                     const LoraChoice& choice);

}  // namespace shardkit
