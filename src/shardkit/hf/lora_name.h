// Names that PEFT gives to the tensors of a model with adapters.
#pragma once

#include <string>
#include <string_view>

namespace shardkit::hf {

/// Whether a tensor belongs to a LoRA-wrapped model: some part of the name between dots is one of
/// lora_A, lora_B, lora_embedding_A, lora_embedding_B, lora_magnitude_vector, base_layer,
/// modules_to_save, original_module (peft 0.18, tuners/lora/layer.py and utils/other.py), or it is
/// of kOtherKind. Such a state dict is no plain model until the adapter is folded in.
bool is_lora_name(std::string_view name);

/// What a tensor of such a state dict is.
enum class LoraRole {
  kModel,        ///< of the model itself, perhaps below base_layer
  kOriginal,     ///< below original_module: what modules_to_save left untrained
  kTrainedCopy,  ///< below modules_to_save
  kA,            ///< lora_A
  kB,            ///< lora_B
  kBias,         ///< bias of lora_B
  kEmbeddingA,
  kEmbeddingB,
  kMagnitude,  ///< of DoRA
  kOtherKind,  ///< of an adapter that is no LoRA: LoHa, IA3, OFT, ...
  kUnknown,    ///< of an adapter, but of no form that is known here
};

struct LoraName {
  LoraRole role = LoraRole::kModel;
  /// The module that the adapter belongs to, or that was copied; of kModel, kOtherKind and kUnknown
  /// empty.
  std::string module;
  /// Of an adapter's tensor; empty where the name has none, as in a saved adapter.
  std::string adapter;
  /// Of the model's tensors, copies included: the name in the plain model.
  std::string model_name;
};

/// Takes a name apart. "base_model.model." in front, "base_layer", "original_module" and
/// "modules_to_save.ADAPTER" are taken out.
///
/// kUnknown: another part that begins with lora_ or vera_, an adapter inside a trained copy,
/// token_adapter (trainable_token_indices), or more parts than a form has. kOtherKind: a name with
/// "base_model.model." in front of which a part begins as one of peft's other tuners begins its
/// parameters.
/// @param name  without FSDP's wrapper parts
LoraName parse_lora_name(std::string_view name);

/// The name of an adapter's tensor in adapter_model.safetensors, as peft saves it (peft 0.21,
/// utils/save_and_load.py, get_peft_model_state_dict): "base_model.model." in front and the
/// adapter's name left out. REQUIRES: a role of an adapter, or kTrainedCopy.
std::string saved_adapter_name(const LoraName& name);

/// The same of a tensor of the model that the adapter's file holds besides, such as a trained bias:
/// its full name, base_layer included. @param name  with or without "base_model.model."
std::string saved_model_name(std::string_view name);

}  // namespace shardkit::hf
