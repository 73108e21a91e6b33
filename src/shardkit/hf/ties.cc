// The pairs of names that transformers' models tie.
#include "shardkit/hf/ties.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

namespace shardkit::hf {
namespace {

struct KnownTie {
  std::string_view alias;
  std::string_view canonical;
};

/// `_tied_weights_keys` of the decoders in transformers 5.24 (models/*/modeling_*.py), and the
/// names that 4.x saved for models of text and images. Where a model has two of the canonical
/// names, the first here counts.
constexpr std::array kKnownTies{
    KnownTie{"lm_head.weight", "model.embed_tokens.weight"},  // llama, qwen2, gemma, ...
    KnownTie{"lm_head.weight", "model.language_model.embed_tokens.weight"},  // qwen2_vl, gemma3
    KnownTie{"language_model.lm_head.weight", "language_model.model.embed_tokens.weight"},  // 4.x
    KnownTie{"lm_head.weight", "model.text_model.embed_tokens.weight"},  // idefics3, smolvlm
    KnownTie{"lm_head.weight", "transformer.wte.weight"},                // gpt2, gpt_bigcode, mpt
    KnownTie{"lm_head.weight", "transformer.word_embeddings.weight"},    // bloom, falcon
    KnownTie{"lm_head.weight", "model.decoder.embed_tokens.weight"},     // opt
    KnownTie{"lm_head.weight", "backbone.embeddings.weight"},            // mamba, mamba2
};

/// Ends of the names of classes that have an output embedding; without a class it is taken for one.
constexpr std::array<std::string_view, 3> kLanguageModels{"ForCausalLM", "ForConditionalGeneration",
                                                          "LMHeadModel"};

bool has_output_embedding(const ModelConfig& config) {
  return config.architectures.empty() ||
         std::any_of(kLanguageModels.begin(), kLanguageModels.end(), [&](std::string_view ending) {
           return config.architectures.front().ends_with(ending);
         });
}

}  // namespace

std::vector<TiedPair> tied_pairs(const ModelConfig& config, std::span<const std::string> names) {
  std::vector<TiedPair> pairs;
  if (!ties_word_embeddings(config)) return pairs;
  const std::unordered_set<std::string_view> present(names.begin(), names.end());
  for (const std::string& name : names)
    for (const KnownTie& tie : kKnownTies)
      if (tie.alias == name && present.contains(tie.canonical)) {
        pairs.push_back({std::string(tie.canonical), name});
        break;
      }
  return pairs;
}

std::vector<TiedPair> ties_left_out(const ModelConfig& config, std::span<const std::string> names) {
  std::vector<TiedPair> pairs;
  if (!ties_word_embeddings(config) || !has_output_embedding(config)) return pairs;
  const std::unordered_set<std::string_view> present(names.begin(), names.end());
  std::unordered_set<std::string_view> aliases;
  for (const KnownTie& tie : kKnownTies)
    if (present.contains(tie.canonical) && !present.contains(tie.alias) &&
        aliases.insert(tie.alias).second)
      pairs.push_back({std::string(tie.canonical), std::string(tie.alias)});
  return pairs;
}

}  // namespace shardkit::hf
