// Adapters of parameters (peft's target_parameters), such as of experts that are held in one
// tensor.
#pragma once

#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hf/lora_name.h"
#include "shardkit/merge/lora_adapter.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

/// Finds out which parameter each adapter is of, and sets name, parameter, experts, transposed and
/// rank of those modules.
///
/// peft wraps a module once for each of its parameters with an adapter, in the order in which the
/// module has them, and no name tells which: "experts.base_layer.lora_A" is of an earlier one than
/// "experts.lora_A" (peft 0.21, tuners/tuners_utils.py, _inject_parameters). So it is told by that
/// order, by target_parameters of adapter_config.json and by shapes, where all this leaves one
/// possibility. Without base weights only name and rank are set, by what the files say.
///
/// @param names    of Catalog::tensors, taken apart
/// @param adapter  with its settings
/// @error kIncomplete  no possibility or several; wrapped modules without both base weights and an
///                     adapter_config.json
/// @error as hf::rank_of
Status find_parameters(const MergeSource& source, const std::vector<hf::LoraName>& names,
                       LoraAdapter& adapter);

}  // namespace shardkit
