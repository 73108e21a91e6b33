// Takes PEFT's tensor names apart.
#include "shardkit/hf/lora_name.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

namespace shardkit::hf {
namespace {

constexpr std::array<std::string_view, 8> kLoraParts{"lora_A",
                                                     "lora_B",
                                                     "lora_embedding_A",
                                                     "lora_embedding_B",
                                                     "lora_magnitude_vector",
                                                     "base_layer",
                                                     "modules_to_save",
                                                     "original_module"};
constexpr std::string_view kPrefix = "base_model.model.";

/// How the parameters of tuners begin that wrap modules as LoRA does (peft 0.21, mapping.py,
/// PEFT_TYPE_TO_PREFIX_MAPPING; bone_ of earlier ones).
constexpr std::array<std::string_view, 38> kOtherTuners{
    "adamss_",      "adaption_",     "beft_",
    "boft_",        "bone_",         "c3a_",
    "deft_",        "delora_",       "fourierft_",
    "frod_",        "glora_",        "gralora_",
    "hada_",        "hira_",         "hra_",
    "ia3_",         "lily_",         "ln_tuning_",
    "lokr_",        "miss_",         "oft_",
    "osf_",         "peanut_",       "poly_",
    "psoft_",       "pvera_lambda_", "randlora_",
    "road_",        "shadow_",       "shira_",
    "supertuning_", "tinylora_",     "trainable_tokens_",
    "unilora_",     "vblora_",       "vera_",
    "waveft_",      "xlora_"};

using Parts = std::span<const std::string_view>;

std::vector<std::string_view> split(std::string_view name) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == name.npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

std::string join(Parts parts) {
  std::string text;
  for (const std::string_view part : parts) {
    if (!text.empty()) text += '.';
    text += part;
  }
  return text;
}

/// The same without the parts that PEFT's wrappers add to a model's own names.
std::string plain(Parts parts) {
  std::vector<std::string_view> kept;
  for (const std::string_view part : parts)
    if (part != "base_layer" && part != "original_module") kept.push_back(part);
  return join(kept);
}

std::optional<LoraRole> adapter_role(std::string_view part) {
  if (part == "lora_A") return LoraRole::kA;
  if (part == "lora_B") return LoraRole::kB;
  if (part == "lora_embedding_A") return LoraRole::kEmbeddingA;
  if (part == "lora_embedding_B") return LoraRole::kEmbeddingB;
  if (part == "lora_magnitude_vector") return LoraRole::kMagnitude;
  return std::nullopt;
}

bool is_of_other_adapter(std::string_view part) {
  return part.starts_with("lora_") || part.starts_with("vera_") || part == "token_adapter";
}

bool is_of_other_tuner(std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  const auto parts = split(name.substr(kPrefix.size()));
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return std::any_of(kOtherTuners.begin(), kOtherTuners.end(),
                       [part](std::string_view begins) { return part.starts_with(begins); });
  });
}

std::size_t find_part(Parts parts, std::string_view wanted) {
  return static_cast<std::size_t>(std::find(parts.begin(), parts.end(), wanted) - parts.begin());
}

/// lora_X [ADAPTER] [weight | bias]
LoraName of_adapter(Parts parts, std::size_t at) {
  LoraName result;
  const Parts rest = parts.subspan(at + 1);
  const bool bias = !rest.empty() && rest.back() == "bias";
  const bool ends = bias || (!rest.empty() && rest.back() == "weight");
  const Parts adapter = rest.first(rest.size() - (ends ? 1 : 0));
  const auto role = adapter_role(parts[at]);
  const bool copied = find_part(parts, "modules_to_save") < parts.size();
  if (!role || at == 0 || adapter.size() > 1 || copied || (bias && role != LoraRole::kB)) {
    result.role = LoraRole::kUnknown;
    return result;
  }
  result.role = bias ? LoraRole::kBias : *role;
  result.module = join(parts.first(at));
  result.adapter = join(adapter);
  return result;
}

}  // namespace

bool is_lora_name(std::string_view name) {
  if (is_of_other_tuner(name)) return true;
  const auto parts = split(name);
  return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
    return std::find(kLoraParts.begin(), kLoraParts.end(), part) != kLoraParts.end();
  });
}

LoraName parse_lora_name(std::string_view name) {
  LoraName result;
  if (is_of_other_tuner(name)) {
    result.role = LoraRole::kOtherKind;
    return result;
  }
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const auto all = split(name);
  const Parts parts(all);
  const auto other = std::find_if(parts.begin(), parts.end(), is_of_other_adapter);
  if (other != parts.end())
    return of_adapter(parts, static_cast<std::size_t>(other - parts.begin()));
  const std::size_t copy = find_part(parts, "modules_to_save");
  if (copy < parts.size()) {
    if (copy == 0 || copy + 2 >= parts.size()) {
      result.role = LoraRole::kUnknown;
      return result;
    }
    result.role = LoraRole::kTrainedCopy;
    result.module = plain(parts.first(copy));
    result.adapter = parts[copy + 1];
    result.model_name = result.module + "." + plain(parts.subspan(copy + 2));
    return result;
  }
  const std::size_t original = find_part(parts, "original_module");
  if (original < parts.size()) {
    result.role = LoraRole::kOriginal;
    result.module = plain(parts.first(original));
  }
  result.model_name = plain(parts);
  return result;
}

std::string saved_adapter_name(const LoraName& name) {
  std::string saved(kPrefix);
  switch (name.role) {
    case LoraRole::kA: return saved + name.module + ".lora_A.weight";
    case LoraRole::kB: return saved + name.module + ".lora_B.weight";
    case LoraRole::kBias: return saved + name.module + ".lora_B.bias";
    case LoraRole::kEmbeddingA: return saved + name.module + ".lora_embedding_A";
    case LoraRole::kEmbeddingB: return saved + name.module + ".lora_embedding_B";
    case LoraRole::kMagnitude: return saved + name.module + ".lora_magnitude_vector";
    case LoraRole::kModel:
    case LoraRole::kOriginal:
    case LoraRole::kTrainedCopy:
    case LoraRole::kOtherKind:
    case LoraRole::kUnknown: break;
  }
  return saved + name.model_name;
}

std::string saved_model_name(std::string_view name) {
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return std::string(kPrefix) + std::string(name);
}

}  // namespace shardkit::hf
