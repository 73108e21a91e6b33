// read_weights(): the tensors of a model folder or a file, in whatever form they are kept.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hf/config.h"
#include "shardkit/io/file_system.h"
#include "shardkit/state/value.h"

namespace shardkit {

struct ModelWeights {
  std::string kind;                       ///< "model folder (safetensors)", ...: for people
  Dict tensors;                           ///< name -> Tensor, none of them read
  std::optional<hf::ModelConfig> config;  ///< of a folder that has one
  std::vector<std::string> notes;
};

/// Of a folder the files that transformers would load (5.24, modeling_utils.py
/// _get_resolved_checkpoint_files): model.safetensors, model.safetensors.index.json,
/// pytorch_model.bin, pytorch_model.bin.index.json, the first that is there; else all *.safetensors
/// of the folder together. Of a file: safetensors, or what torch.save wrote.
///
/// Of a nested .pt the names are the keys joined by '.'; a root whose only tensors stand under one
/// key ("state_dict", "model") is entered first, with a note.
///
/// @error kNotFound    nothing there, or a file that an index lists is missing
/// @error kIncomplete  an index and its files disagree, two files hold a tensor of one name, or
///                     there are no tensors
/// @error kUnsupported tensors in an object of a .pt, which have no names
/// @error as the readers. Reads headers and pickles only.
Result<ModelWeights> read_weights(FileSystem& fs, const std::string& path);

}  // namespace shardkit
