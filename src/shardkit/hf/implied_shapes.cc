// Shapes and layers of decoders from the sizes in config.json.
#include "shardkit/hf/implied_shapes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "shardkit/base/checked_math.h"

namespace shardkit::hf {
namespace {

/// What a model type's modeling code does where the configuration leaves a size out.
struct Family {
  std::string_view model_type;
  bool head_dim_defaults_to_quotient;  ///< hidden_size / num_attention_heads
  bool ignores_head_dim;               ///< always the quotient
  bool kv_heads_default_to_heads;
};

/// Dense decoders with the layer names of Llama. Where a class has a default of its own that is
/// neither of these (128 in qwen3, 256 in gemma), the size must be in the file.
constexpr std::array kFamilies{
    Family{"llama", true, false, true},        Family{"mistral", true, false, false},
    Family{"qwen2", true, false, false},       Family{"qwen2_vl", true, true, false},
    Family{"qwen2_5_vl", true, true, false},   Family{"qwen3", false, false, false},
    Family{"qwen3_vl", false, false, false},   Family{"gemma", false, false, false},
    Family{"gemma2", false, false, false},     Family{"gemma3", false, false, false},
    Family{"gemma3_text", false, false, false}};

/// In front of "embed_tokens.weight", "layers.0..." and "norm.weight": a causal model, a bare one,
/// and the text part of a model of text and images by transformers 5 and 4.
constexpr std::array<std::string_view, 4> kPrefixes{"model.language_model.",
                                                    "language_model.model.", "model.", ""};

using Size = std::optional<std::int64_t>;

/// The sizes that shapes are made of; a dimension that is not certain is not set.
struct Sizes {
  Size vocab, hidden, intermediate, head_dim, q, kv;
};

Sizes derive(const TextSizes& sizes, const Family& family) {
  const auto positive = [](Size value) { return value && *value > 0 ? value : Size(); };
  Sizes result;
  result.vocab = positive(sizes.vocab_size);
  result.hidden = positive(sizes.hidden_size);
  result.intermediate = positive(sizes.intermediate_size);
  const Size heads = positive(sizes.num_attention_heads);
  Size kv_heads = positive(sizes.num_key_value_heads);
  if (!sizes.num_key_value_heads && family.kv_heads_default_to_heads) kv_heads = heads;
  if (!family.ignores_head_dim) result.head_dim = positive(sizes.head_dim);
  const bool quotient =
      family.ignores_head_dim || (!sizes.head_dim && family.head_dim_defaults_to_quotient);
  if (quotient && heads && result.hidden && *result.hidden % *heads == 0)
    result.head_dim = *result.hidden / *heads;
  if (heads && result.head_dim) result.q = checked_mul(*heads, *result.head_dim);
  if (kv_heads && result.head_dim) result.kv = checked_mul(*kv_heads, *result.head_dim);
  return result;
}

std::optional<Dims> vector_of(Size size) {
  if (!size) return std::nullopt;
  return Dims{*size};
}

std::optional<Dims> matrix_of(Size rows, Size columns) {
  if (!rows || !columns) return std::nullopt;
  return Dims{*rows, *columns};
}

/// A linear layer: "weight" is [out, in], "bias" is [out].
std::optional<Dims> linear(std::string_view part, Size out, Size in) {
  if (part == "weight") return matrix_of(out, in);
  if (part == "bias") return vector_of(out);
  return std::nullopt;
}

/// `name` is what follows "layers.N.".
std::optional<Dims> layer_shape(const Sizes& sizes, std::string_view name) {
  for (const std::string_view norm :
       {"input_layernorm.weight", "post_attention_layernorm.weight",
        "pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"})
    if (name == norm) return vector_of(sizes.hidden);
  if (name == "self_attn.q_norm.weight" || name == "self_attn.k_norm.weight")
    return vector_of(sizes.head_dim);

  const auto part_of = [name](std::string_view module) {
    return name.starts_with(module) ? name.substr(module.size()) : std::string_view();
  };
  if (const auto part = part_of("self_attn.q_proj."); !part.empty())
    return linear(part, sizes.q, sizes.hidden);
  if (const auto part = part_of("self_attn.k_proj."); !part.empty())
    return linear(part, sizes.kv, sizes.hidden);
  if (const auto part = part_of("self_attn.v_proj."); !part.empty())
    return linear(part, sizes.kv, sizes.hidden);
  if (const auto part = part_of("self_attn.o_proj."); !part.empty())
    return linear(part, sizes.hidden, sizes.q);
  if (const auto part = part_of("mlp.gate_proj."); !part.empty())
    return linear(part, sizes.intermediate, sizes.hidden);
  if (const auto part = part_of("mlp.up_proj."); !part.empty())
    return linear(part, sizes.intermediate, sizes.hidden);
  if (const auto part = part_of("mlp.down_proj."); !part.empty())
    return linear(part, sizes.hidden, sizes.intermediate);
  return std::nullopt;
}

/// Null: a family that is not known, or a quantized model, whose weights are packed, in tensors and
/// shapes that the method decides.
const Family* find_family(const ModelConfig& config) {
  if (config.quantized) return nullptr;
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) {
    return f.model_type == config.model_type;
  });
  return family == kFamilies.end() ? nullptr : &*family;
}

}  // namespace

std::optional<Dims> implied_shape(const ModelConfig& config, std::string_view name) {
  const Family* family = find_family(config);
  if (family == nullptr) return std::nullopt;
  const Sizes sizes = derive(config.sizes, *family);

  if (name == "lm_head.weight" || name == "language_model.lm_head.weight")
    return matrix_of(sizes.vocab, sizes.hidden);
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    if (rest == "embed_tokens.weight") return matrix_of(sizes.vocab, sizes.hidden);
    if (rest == "norm.weight") return vector_of(sizes.hidden);
  }
  const auto in_layer = parse_layer_name(name);
  return in_layer ? layer_shape(sizes, in_layer->rest) : std::nullopt;
}

bool has_like_layers(const ModelConfig& config) { return find_family(config) != nullptr; }

std::optional<LayerName> parse_layer_name(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  constexpr std::int64_t kMostLayers = 1 << 20;  // a higher number is no layer's
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix) || !name.substr(prefix.size()).starts_with(kLayers)) continue;
    const std::string_view number = name.substr(prefix.size() + kLayers.size());
    LayerName result;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), result.layer);
    const auto digits = static_cast<std::size_t>(end - number.data());
    if (error != std::errc() || result.layer < 0 || result.layer >= kMostLayers ||
        digits + 1 >= number.size() || number[digits] != '.')
      return std::nullopt;
    result.decoder = name.substr(0, prefix.size());
    result.rest = number.substr(digits + 1);
    return result;
  }
  return std::nullopt;
}

}  // namespace shardkit::hf
