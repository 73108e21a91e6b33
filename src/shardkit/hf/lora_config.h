// LoraSettings: what the files beside an adapter say of how it was trained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/json/value.h"

namespace shardkit::hf {

/// Of peft's LoraConfig (peft 0.21, tuners/lora/config.py), what decides how tensors are folded.
struct LoraSettings {
  std::optional<std::int64_t> rank;
  std::optional<double> alpha;  ///< > 0; verl's older files say 0 where they do not know: not set
  bool rslora = false;          ///< scale is alpha / sqrt(rank), not alpha / rank
  bool dora = false;
  std::optional<bool> fan_in_fan_out;
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  /// Which biases of the model were trained with the adapter.
  enum class Bias { kNone, kAll, kOfModules };
  Bias bias = Bias::kNone;
  /// Parameters with adapters: "mlp.experts.down_proj" is each whose name ends so.
  std::vector<std::string> target_parameters;
  /// init_lora_weights where it is a name. Some change the base weights before training begins.
  std::string initialization;
  /// Options that are set and make an adapter more, or other, than B A; by name.
  std::vector<std::string> foreign_options;
  std::optional<std::string> task_type;
  std::optional<json::Object> text;  ///< of adapter_config.json, whole

  std::string rank_source;   ///< the file that says so, for messages
  std::string alpha_source;  ///< or "--lora-alpha"
};

/// Whether an entry of target_parameters names a parameter: its full name, or the end of it (peft
/// 0.21, tuners/tuners_utils.py, _inject_parameters).
bool names_parameter(std::string_view target, std::string_view full_name);

/// Reads an adapter_config.json.
/// @error kCorrupt     no JSON object; a rank, alpha or pattern that is no number above 0 (but an
///                     alpha of 0 or null, which is unknown); a bias that peft does not know;
///                     target_parameters that are no list of texts
/// @error kUnsupported a peft_type other than LORA
Result<LoraSettings> parse_adapter_config(std::string_view text);

/// Reads verl's lora_train_meta.json: r, lora_alpha, task_type (verl 0.9.1,
/// utils/checkpoint/fsdp_checkpoint_manager.py). @error kCorrupt as parse_adapter_config
Result<LoraSettings> parse_lora_train_meta(std::string_view text);

/// The rank that the settings give a module: by the first key of rank_pattern that names it, else
/// `rank`. @error as names_module
Result<std::optional<std::int64_t>> rank_of(const LoraSettings& settings, std::string_view module);

/// The same of alpha. @error as names_module
Result<std::optional<double>> alpha_of(const LoraSettings& settings, std::string_view module);

/// What an adapter's tensors tell, for an adapter_config.json.
struct AdapterFacts {
  std::vector<std::pair<std::string, std::int64_t>> ranks;  ///< of each module, by its full name
  std::vector<std::string> target_modules;
  std::vector<std::string> target_parameters;
  std::vector<std::string> modules_to_save;
  bool dora = false;
  bool bias = false;       ///< lora_B has one
  bool with_base = false;  ///< the base weights are written beside it, as they were trained with
};

/// The text of an adapter_config.json that peft loads. Where the settings come from such a file,
/// all its members are kept, but: lora_alpha is what the settings say; inference_mode is true; with
/// the base beside it init_lora_weights is true, since nothing is to be done to that base again.
///
/// An alpha that nobody knows becomes null, with which peft loads nothing: a number left out would
/// be 8 for it.
std::string adapter_config_text(const LoraSettings& settings, const AdapterFacts& facts);

}  // namespace shardkit::hf
