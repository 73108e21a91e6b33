// How an adapter's module is folded into its base weight.
#pragma once

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/fold.h"
#include "shardkit/merge/lora_adapter.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

/// Whether all of an adapter can be folded, whatever the module.
///
/// @param base_is_original  the base weights are those of before training began, not the
/// checkpoint's
/// @error kUnsupported options that make it more than B A, or base weights that the initialization
///        of the adapter changed and that are not in the checkpoint
/// @error kIncomplete  a name in target_parameters that no parameter with an adapter has
Status check_foldable(const LoraAdapter& adapter, bool base_is_original);

/// scale = alpha / rank, or alpha / sqrt(rank) with rsLoRA; transposed for an embedding and for
/// transformers' Conv1D. Which of the two a weight is, its shape says; of a square weight the model
/// type and fan_in_fan_out of adapter_config.json do, of square experts the model type
/// (docs/lora.md).
///
/// @param weight  the module's weight, or the parameter that has the adapter
/// @error kIncomplete  alpha is not known; it cannot be told whether a square weight is transposed
/// @error kUnsupported a bias of lora_B; as fold_shape, alpha_of
Result<Fold> fold_of(const MergeSource& source, const LoraAdapter& adapter,
                     const LoraModule& module, const CatalogTensor& weight);

}  // namespace shardkit
