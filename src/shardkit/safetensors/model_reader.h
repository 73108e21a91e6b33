// The weights of a Hugging Face model folder as one state dict.
#pragma once

#include <string>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/state/value.h"

namespace shardkit::safetensors {

/// Name -> Tensor, of model.safetensors or, where that is not there, of the files that
/// model.safetensors.index.json lists; of both transformers loads the first, too (5.24,
/// modeling_utils.py _get_resolved_checkpoint_files). Files in the order of their names, tensors in
/// data order. Reads headers only; tensors are as read_safetensors() makes them.
///
/// @error kNotFound   the folder has neither, or a listed file is missing
/// @error kIncomplete index and files disagree on which tensor lies where; the tensor is named
/// @error as read_index and read_safetensors
Result<Dict> read_model(FileSystem& fs, const std::string& folder);

}  // namespace shardkit::safetensors
