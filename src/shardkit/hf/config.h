// config.json of a Hugging Face model: the few facts that a merge needs, and a change of its dtype.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit::hf {

/// Sizes that imply tensor shapes, of text_config (in a model of text and images) or of the top
/// level. Not set where the file does not say, or where both say different things.
struct TextSizes {
  std::optional<std::int64_t> vocab_size;
  std::optional<std::int64_t> hidden_size;
  std::optional<std::int64_t> intermediate_size;
  std::optional<std::int64_t> num_attention_heads;
  std::optional<std::int64_t> num_key_value_heads;
  std::optional<std::int64_t> head_dim;
  std::optional<std::int64_t> num_hidden_layers;
  /// Routed experts of a layer: "num_experts", "num_local_experts" or "n_routed_experts".
  std::optional<std::int64_t> num_experts;
  /// Into how many tensors Qwen4-exp's n-gram embedding is cut.
  std::optional<std::int64_t> split_ngram_parts;
};

/// A member of the top level that is the configuration of a part: "vision_config".
struct ConfigPart {
  std::string name;
  std::string model_type;  ///< never empty
  std::optional<std::int64_t> num_attention_heads = std::nullopt;
};

struct ModelConfig {
  std::string text;  ///< the file as it was
  /// Empty where missing or null. Without the "FSDP" that fully_shard() puts before a class's name
  /// (torch 2.13, distributed/fsdp/_fully_shard/_fully_shard.py).
  std::vector<std::string> architectures;
  bool has_wrapper_names = false;  ///< the file's architectures have that "FSDP"
  std::string model_type;          ///< empty where missing
  std::vector<ConfigPart> parts;
  std::optional<bool> tie_word_embeddings;  ///< of the top level, else of text_config
  bool tie_is_of_text = false;              ///< text_config alone says it
  std::optional<DType> dtype;               ///< "dtype" or "torch_dtype", top level first
  bool quantized = false;                   ///< has a quantization_config
  /// Files with code that "auto_map" takes classes from: "modeling_x.py"; none of other
  /// repositories.
  std::vector<std::string> code_files;
  TextSizes sizes;
};

/// Reads the text of a config.json. Only what is above is looked at; a member of another kind than
/// expected counts as missing, so that no odd model is turned away.
///
/// @error kCorrupt the text is no JSON object, by the rules of json::parse with python_numbers
/// @error kLimit   as json::parse
Result<ModelConfig> parse_config(std::string text);

/// config.json of a folder; nothing if there is none.
/// @error as parse_config, with the file named; kLimit more than 16 MiB; kIo
Result<std::optional<ModelConfig>> read_config(FileSystem& fs, const std::string& folder);

/// Whether transformers ties the input and output embeddings: what the file says; where it says
/// nothing, the default of the model type's configuration class (transformers 5.24); false for a
/// model type without a known default.
bool ties_word_embeddings(const ModelConfig& config);

/// Whether a loader of any version ties them, so that one of two may be left out of a file. Older
/// versions look at text_config; transformers 5.24 does so for few model types, and makes what a
/// file lacks of others at random.
bool ties_on_loading(const ModelConfig& config);

/// The text with the top-level dtype changed: in "dtype" and in "torch_dtype", whichever are
/// there; and with the names of `architectures`, where the file's have a wrapper's. All other bytes
/// stay.
///
/// @error as json::replace_member
Result<std::string> with_dtype(const ModelConfig& config, DType dtype);

}  // namespace shardkit::hf
