// Scale and orientation of the fold of a module.
#include "shardkit/merge/lora_fold.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace shardkit {
namespace {

// Where transformers 5.24 has Conv1D, whose weight is in x out, and how these modules are called.
constexpr std::array<std::string_view, 5> kConv1dModels{"clvp", "decision_transformer", "gpt2",
                                                        "imagegpt", "openai-gpt"};
constexpr std::array<std::string_view, 4> kConv1dModules{"c_attn", "c_fc", "c_proj", "q_attn"};
// Whose experts transformers 5.24 holds as in x out:
// use_experts_implementation(is_transposed=True).
constexpr std::array<std::string_view, 4> kTransposedExperts{"aria", "aria_text", "gpt_oss",
                                                             "openai_privacy_filter"};

// Initializations that leave the base weights as they were (peft 0.21, tuners/lora/layer.py).
constexpr std::array<std::string_view, 4> kHarmlessInitializations{"eva", "gaussian", "mica",
                                                                   "orthogonal"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view last_part(std::string_view module) { return module.substr(module.rfind('.') + 1); }

/// Whether the module is a Conv1D by what config.json says of the model and its parts; nothing
/// where it tells of no model that has any.
std::optional<bool> is_conv1d(const hf::ModelConfig& config, std::string_view module) {
  const bool named = contains(kConv1dModules, last_part(module));
  if (contains(kConv1dModels, config.model_type)) return named;
  const auto has_conv1d = [](const hf::ConfigPart& part) {
    return contains(kConv1dModels, part.model_type);
  };
  if (std::none_of(config.parts.begin(), config.parts.end(), has_conv1d)) return std::nullopt;
  for (const hf::ConfigPart& part : config.parts)  // "decoder" of an encoder-decoder
    if (module.starts_with(part.name + ".")) return named && has_conv1d(part);
  return named;
}

/// Of a weight that fits both ways.
Result<bool> is_square_transposed(const MergeSource& source, const LoraAdapter& adapter,
                                  const LoraModule& module) {
  if (source.config)
    if (const auto known = is_conv1d(*source.config, module.name)) return *known;
  const bool named = contains(kConv1dModules, last_part(module.name));
  const bool has_type = source.config && !source.config->model_type.empty();
  if (const auto flag = adapter.settings.fan_in_fan_out) {
    // peft sets it anew for each module that it wraps: it is that of the last.
    const bool is_of_others =
        *flag != named && (*flag || !has_type) &&
        std::any_of(adapter.modules.begin(), adapter.modules.end(), [named](const LoraModule& m) {
          return !m.embedding && m.parameter.empty() &&
                 contains(kConv1dModules, last_part(m.name)) != named;
        });
    if (!is_of_others) return *flag;
    return Error(ErrorCode::kIncomplete,
                 "it cannot be told whether this square weight is stored transposed: "
                 "fan_in_fan_out in adapter_config.json may be of other modules")
        .of_tensor(module.name);
  }
  if (has_type || !named) return false;
  return Error(ErrorCode::kIncomplete,
               "it cannot be told whether this square weight is stored transposed: there is "
               "neither a config.json with a model_type nor an adapter_config.json")
      .of_tensor(module.name);
}

Result<bool> are_experts_transposed(const MergeSource& source, const LoraModule& module) {
  if (source.config && !source.config->model_type.empty()) {
    const auto& parts = source.config->parts;
    return contains(kTransposedExperts, source.config->model_type) ||
           std::any_of(parts.begin(), parts.end(), [](const auto& part) {
             return contains(kTransposedExperts, part.model_type);
           });
  }
  return Error(ErrorCode::kIncomplete,
               "it cannot be told whether these square experts are stored transposed: there is no "
               "config.json with a model_type")
      .of_tensor(module.target());
}

Result<bool> is_transposed(const MergeSource& source, const LoraAdapter& adapter,
                           const LoraModule& module, const CatalogTensor& weight) {
  if (module.transposed) return *module.transposed;
  if (module.experts > 0) return are_experts_transposed(source, module);
  if (module.embedding) return true;
  if (weight.shape.size() != 2) return false;
  const std::int64_t in = source.catalog->tensors[module.a].shape[1];
  const std::int64_t out = source.catalog->tensors[module.b].shape[0];
  const bool straight = weight.shape == Dims{out, in};
  const bool turned = weight.shape == Dims{in, out};
  if (straight && turned) return is_square_transposed(source, adapter, module);
  return turned;
}

}  // namespace

Status check_foldable(const LoraAdapter& adapter, bool base_is_original) {
  const hf::LoraSettings& settings = adapter.settings;
  if (!settings.foreign_options.empty())
    return Error(ErrorCode::kUnsupported, "an adapter with these options cannot be folded")
        .found(fmt::format("{}", fmt::join(settings.foreign_options, ", ")));
  for (const std::string& target : settings.target_parameters) {
    const bool there = std::any_of(
        adapter.modules.begin(), adapter.modules.end(), [&target](const LoraModule& module) {
          return !module.parameter.empty() && hf::names_parameter(target, module.target());
        });
    if (!there)
      return Error(
                 ErrorCode::kIncomplete,
                 "target_parameters in adapter_config.json names no parameter of the base weights "
                 "that has an adapter; experts that lie one by one in a base model are no such")
          .found(target);
  }
  if (base_is_original && !settings.initialization.empty() &&
      !contains(kHarmlessInitializations, settings.initialization))
    return Error(ErrorCode::kUnsupported,
                 "the initialization of this adapter changed the base weights, and the checkpoint "
                 "does not hold them")
        .expected("init_lora_weights that leaves them: true, gaussian, eva, mica, orthogonal")
        .found(settings.initialization);
  return {};
}

Result<Fold> fold_of(const MergeSource& source, const LoraAdapter& adapter,
                     const LoraModule& module, const CatalogTensor& weight) {
  if (module.bias)
    return Error(ErrorCode::kUnsupported, "a bias of lora_B cannot be folded")
        .of_tensor(source.catalog->tensors[*module.bias].name);
  SHARDKIT_ASSIGN(const auto alpha, hf::alpha_of(adapter.settings, module.target()));
  if (!alpha)
    return Error(ErrorCode::kIncomplete,
                 "lora_alpha is not known: no adapter_config.json or lora_train_meta.json beside "
                 "the shards says it; --lora-alpha tells it")
        .of_tensor(module.target());
  const auto rank = static_cast<double>(module.rank);
  Fold fold;
  const std::vector<CatalogTensor>& tensors = source.catalog->tensors;
  fold.a = std::make_shared<const CatalogTensor>(tensors[module.a]);
  fold.b = std::make_shared<const CatalogTensor>(tensors[module.b]);
  if (module.magnitude)
    fold.magnitude = std::make_shared<const CatalogTensor>(tensors[*module.magnitude]);
  fold.scale = *alpha / (adapter.settings.rslora ? std::sqrt(rank) : rank);
  fold.experts = module.experts;
  SHARDKIT_ASSIGN(fold.transposed, is_transposed(source, adapter, module, weight));
  SHARDKIT_TRY(fold_shape(weight, fold));
  return fold;
}

}  // namespace shardkit
