#include "shardkit/merge/check_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "shardkit/hf/experts.h"
#include "shardkit/hf/implied_shapes.h"

namespace shardkit {
namespace {

/// Where decoders keep their embeddings, of a row for each token (transformers 5.24; hf/ties.cc).
constexpr std::array<std::string_view, 9> kEmbeddings{"model.embed_tokens.weight",
                                                      "model.language_model.embed_tokens.weight",
                                                      "language_model.model.embed_tokens.weight",
                                                      "model.text_model.embed_tokens.weight",
                                                      "model.decoder.embed_tokens.weight",
                                                      "transformer.wte.weight",
                                                      "transformer.word_embeddings.weight",
                                                      "lm_head.weight",
                                                      "language_model.lm_head.weight"};

bool is_embedding(std::string_view name) {
  return std::find(kEmbeddings.begin(), kEmbeddings.end(), name) != kEmbeddings.end();
}

Error disagreement(std::string what, const CatalogTensor& tensor) {
  return Error(ErrorCode::kIncomplete, std::move(what)).of_tensor(tensor.name);
}

/// An embedding may have more rows than the vocabulary, which it then is padded to.
Status check_embedding(const hf::ModelConfig& config, const CatalogTensor& tensor,
                       ConfigFindings& findings) {
  const auto vocab = config.sizes.vocab_size;
  if (!vocab || *vocab <= 0 || tensor.shape.size() != 2 || tensor.shape[0] == *vocab) return {};
  if (tensor.shape[0] < *vocab)
    return disagreement("fewer rows than the vocabulary of config.json", tensor)
        .expected(fmt::format("vocab_size {}", *vocab))
        .found(to_string(tensor.shape));
  findings.notes.push_back(fmt::format(
      "'{}' has {} rows, and config.json a vocab_size of {}: it is padded, or of another tokenizer",
      tensor.name, tensor.shape[0], *vocab));
  return {};
}

Status check_shape(const hf::ModelConfig& config, const CatalogTensor& tensor,
                   ConfigFindings& findings) {
  // Of plain tensors that were taken for chunks, check_concatenated() speaks.
  if (config.quantized || tensor.guessed) return {};
  auto implied = hf::implied_shape(config, tensor.name);
  if (is_embedding(tensor.name)) {
    SHARDKIT_TRY(check_embedding(config, tensor, findings));
    // The rows are settled.
    if (implied && tensor.shape.size() == implied->size()) (*implied)[0] = tensor.shape[0];
  }
  if (!implied || *implied == tensor.shape) return {};
  return disagreement("not of the shape that config.json implies", tensor)
      .expected(to_string(*implied))
      .found(to_string(tensor.shape));
}

using Numbered = std::map<std::int64_t, std::set<std::string_view>>;  // what each holds, by number

std::set<std::string_view> all_that_any_holds(const Numbered& numbered) {
  std::set<std::string_view> every;
  for (const auto& [number, held] : numbered) every.insert(held.begin(), held.end());
  return every;
}

/// The first of `every` that `number` does not hold.
std::optional<std::string_view> first_lacking(const Numbered& numbered, std::int64_t number,
                                              const std::set<std::string_view>& every) {
  const auto found = numbered.find(number);
  for (const std::string_view name : every)
    if (found == numbered.end() || !found->second.contains(name)) return name;
  return std::nullopt;
}

/// Of one layer.
struct Experts {
  Numbered numbers;
  const CatalogTensor* all = nullptr;  // a tensor of all experts, with the least of them
};

std::map<std::string_view, Experts> find_experts(std::span<const CatalogTensor> tensors) {
  std::map<std::string_view, Experts> layers;
  for (const CatalogTensor& tensor : tensors) {
    const auto name = hf::parse_expert_name(tensor.name);
    if (!name) continue;
    Experts& layer = layers[name->layer];
    if (name->expert) {
      const std::string_view behind = std::string_view(tensor.name).substr(name->layer.size() + 1);
      layer.numbers[*name->expert].insert(behind.substr(behind.find('.') + 1));
    } else if (!tensor.shape.empty() &&
               (layer.all == nullptr || tensor.shape[0] < layer.all->shape[0])) {
      layer.all = &tensor;
    }
  }
  return layers;
}

Status check_experts(const hf::ModelConfig& config, std::span<const CatalogTensor> tensors,
                     ConfigFindings& findings) {
  const auto count = config.sizes.num_experts;
  if (!count || *count <= 1) return {};
  const auto layers = find_experts(tensors);
  if (layers.empty())
    findings.warnings.push_back(
        fmt::format("config.json says {} experts, but no tensor has the name of one", *count));
  for (const auto& [name, layer] : layers) {
    if (layer.all != nullptr && layer.all->shape[0] < *count)
      return disagreement("fewer experts than config.json says", *layer.all)
          .expected(fmt::format("{} on dimension 0", *count))
          .found(to_string(layer.all->shape));
    const std::set<std::string_view> every = all_that_any_holds(layer.numbers);
    for (std::int64_t expert = 0; !every.empty() && expert < *count; ++expert) {
      const auto lacking = first_lacking(layer.numbers, expert, every);
      if (lacking)
        return Error(ErrorCode::kIncomplete,
                     fmt::format("a tensor of expert {} of its layer is not there", expert))
            .of_tensor(fmt::format("{}.{}.{}", name, expert, *lacking))
            .expected(fmt::format("{} experts, as config.json says, that hold the same", *count))
            .found(fmt::format("{} of them", layer.numbers.size()));
    }
    const std::int64_t found =
        layer.all != nullptr ? layer.all->shape[0] : layer.numbers.rbegin()->first + 1;
    if (found > *count)
      findings.warnings.push_back(
          fmt::format("'{}' has {} experts, where config.json says {}", name, found, *count));
  }
  return {};
}

/// Of a family whose layers are alike. A tensor that is not there would be made up by the loader.
Status check_decoder(const hf::ModelConfig& config, std::string_view decoder,
                     const Numbered& layers, std::span<const CatalogTensor> tensors,
                     ConfigFindings& findings) {
  const auto lacks = [](std::string_view what, std::string name) {
    return Error(ErrorCode::kIncomplete, fmt::format("a tensor of {} is not there", what))
        .of_tensor(std::move(name));
  };
  const std::set<std::string_view> every = all_that_any_holds(layers);
  const std::int64_t found = layers.rbegin()->first + 1;
  const std::int64_t count = config.sizes.num_hidden_layers.value_or(found);
  for (std::int64_t number = 0; number < count; ++number) {
    if (const auto lacking = first_lacking(layers, number, every))
      return lacks(fmt::format("layer {}", number),
                   fmt::format("{}layers.{}.{}", decoder, number, *lacking))
          .expected(fmt::format("{} layers that hold the same", count));
  }
  if (found > count)
    findings.warnings.push_back(
        fmt::format("'{}layers' has {} layers, where config.json says {}", decoder, found, count));

  const auto has = [&](const std::string& name) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&name](const CatalogTensor& tensor) { return tensor.name == name; });
  };
  const std::string norm = fmt::format("{}norm.weight", decoder);
  if (!has(norm)) return lacks("the decoder", norm);
  const bool stands_in =  // an lm_head for an input embedding that it is tied to
      hf::ties_word_embeddings(config) &&
      std::any_of(tensors.begin(), tensors.end(),
                  [](const CatalogTensor& tensor) { return is_embedding(tensor.name); });
  const std::string embedding = fmt::format("{}embed_tokens.weight", decoder);
  if (!stands_in && !has(embedding)) return lacks("the decoder", embedding);
  return {};
}

Status check_layers(const hf::ModelConfig& config, std::span<const CatalogTensor> tensors,
                    ConfigFindings& findings) {
  std::map<std::string_view, Numbered> decoders;
  for (const CatalogTensor& tensor : tensors)
    if (const auto name = hf::parse_layer_name(tensor.name))
      decoders[name->decoder][name->layer].insert(name->rest);
  const auto count = config.sizes.num_hidden_layers;
  if (decoders.empty() && hf::has_like_layers(config) && count > 0)
    findings.warnings.push_back(fmt::format(
        "config.json says {} layers, but no tensor has the name of one: a part of a model?",
        *count));
  for (const auto& [decoder, layers] : decoders) {
    if (hf::has_like_layers(config)) {
      SHARDKIT_TRY(check_decoder(config, decoder, layers, tensors, findings));
      continue;
    }
    for (std::int64_t number = 0; number < count.value_or(0); ++number) {
      if (layers.contains(number)) continue;
      findings.warnings.push_back(
          fmt::format("config.json says {} layers, but no tensor has the name '{}layers.{}'",
                      *count, decoder, number));
      break;
    }
  }
  return {};
}

/// An output embedding that is neither there nor tied would be made up by the loader.
Status check_head(const hf::ModelConfig& config, std::span<const CatalogTensor> tensors,
                  ConfigFindings& findings) {
  if (hf::ties_word_embeddings(config) || config.architectures.empty() ||
      !config.architectures.front().ends_with("ForCausalLM") ||
      !hf::implied_shape(config, "lm_head.weight"))
    return {};
  const CatalogTensor* embedding = nullptr;
  for (const CatalogTensor& tensor : tensors) {
    if (!tensor.name.starts_with("model.")) return {};  // lm_head, or a head of its own
    if (is_embedding(tensor.name)) embedding = &tensor;
  }
  if (embedding == nullptr) {
    findings.warnings.emplace_back("the checkpoint holds no embeddings: a part of a model?");
    return {};
  }
  return disagreement("config.json does not tie the embeddings, and there is no lm_head.weight",
                      *embedding)
      .expected("lm_head.weight, or tie_word_embeddings")
      .found(config.architectures.front());
}

}  // namespace

Status check_names(std::span<const CatalogTensor> tensors) {
  for (const CatalogTensor& tensor : tensors) {
    const std::string_view name = tensor.name;
    const std::string_view last = name.substr(name.rfind('.') + 1);  // all of it without a dot
    if (last == "flat_param" || last.starts_with("_flat_param"))
      return Error(ErrorCode::kUnsupported,
                   "a flat parameter of FSDP1 does not say what it holds: save the checkpoint with "
                   "StateDictType.SHARDED_STATE_DICT")
          .of_tensor(tensor.name)
          .found(to_string(tensor.shape));
  }
  return {};
}

Result<ConfigFindings> check_config(const hf::ModelConfig& config,
                                    std::span<const CatalogTensor> tensors) {
  ConfigFindings findings;
  for (const CatalogTensor& tensor : tensors) SHARDKIT_TRY(check_shape(config, tensor, findings));
  SHARDKIT_TRY(check_layers(config, tensors, findings));
  SHARDKIT_TRY(check_experts(config, tensors, findings));
  SHARDKIT_TRY(check_head(config, tensors, findings));
  return findings;
}

}  // namespace shardkit
