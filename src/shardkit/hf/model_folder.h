// A Hugging Face model folder: which of its files belong beside new weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hf {

/// A file that goes with the weights: config, tokenizer, chat template, code.
struct SidecarFile {
  std::string path;  ///< below the folder, parts joined by '/'
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  ///< nanoseconds since 1970
};

/// Whether a file holds model weights or says where they are, by its name without the folder.
///
/// Any *.safetensors, *.gguf and *.distcp; pytorch_model, adapter_model or model with .bin;
/// tf_model.h5; flax_model.msgpack; pytorch_model, model or consolidated with .pt or .pth; each
/// also as a part ("-00001-of-00002") and with a variant (".fp16", ".00"), and their ".index.json".
/// model.ckpt*, rust_model.ot, openvino_model.bin and .xml, and the model*.onnx that optimum
/// exports: made from the old weights. A training run's *_world_size_N_rank_R.pt.
/// Not other names with these endings, such as vocab.bin, training_args.bin, speech_tokenizer.onnx.
bool is_weight_file(std::string_view file_name);

/// Everything in the folder and its subfolders but weights, sorted by path. Leaves out what is no
/// part of a model: .git, .cache, __pycache__.
///
/// A link is taken for the file it points to only where that cannot leak another file: to a file
/// of the same folder, or as the Hugging Face cache has them (snapshots/REVISION/name ->
/// ../../blobs/HASH).
///
/// @error kNotFound, kIo as FileSystem::list
/// @error kUnsafe        any other link, or a link to a folder; the message names it and its target
/// @error kUnsupported   a socket, device or dangling link
/// @error kLimit         folders deeper than 16, or more than 100,000 entries
Result<std::vector<SidecarFile>> list_sidecars(FileSystem& fs, const std::string& folder);

}  // namespace shardkit::hf
