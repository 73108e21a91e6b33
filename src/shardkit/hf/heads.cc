// Compares names of heads with the name of a class.
#include "shardkit/hf/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace shardkit::hf {
namespace {

constexpr std::array<std::string_view, 2> kHeads{"score.", "classifier."};
constexpr std::array<std::string_view, 2> kLanguageModels{"ForCausalLM",
                                                          "ForConditionalGeneration"};
constexpr std::array<std::string_view, 2> kClassifiers{"ForTokenClassification",
                                                       "ForSequenceClassification"};

template <std::size_t kCount>
bool ends_with_any(std::string_view text, const std::array<std::string_view, kCount>& endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [text](std::string_view ending) { return text.ends_with(ending); });
}

bool is_head(const std::string& name) {
  return std::any_of(kHeads.begin(), kHeads.end(),
                     [&name](std::string_view head) { return name.starts_with(head); });
}

}  // namespace

std::optional<std::string> head_warning(const ModelConfig& config,
                                        std::span<const std::string> names) {
  if (config.architectures.empty()) return std::nullopt;
  const std::string& architecture = config.architectures[0];
  const auto head = std::find_if(names.begin(), names.end(), is_head);
  if (head != names.end() && ends_with_any(architecture, kLanguageModels))
    return fmt::format(
        "the weights hold the head '{}', and the class in config.json, {}, has none: that class "
        "leaves it out on loading; AutoModelForTokenClassification or "
        "AutoModelForSequenceClassification read it",
        *head, architecture);
  if (head == names.end() && ends_with_any(architecture, kClassifiers))
    return fmt::format(
        "the class in config.json, {}, has a head (score or classifier) that the weights lack: on "
        "loading it is made at random",
        architecture);
  return std::nullopt;
}

}  // namespace shardkit::hf
