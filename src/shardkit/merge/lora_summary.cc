// Tells of an adapter, to people and machines.
#include "shardkit/merge/lora_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace shardkit {
namespace {

json::Array text_array(const std::vector<std::string>& texts) {
  json::Array array;
  for (const std::string& text : texts) array.items.emplace_back(text);
  return array;
}

}  // namespace

json::Object to_json(const LoraSummary& lora) {
  json::Array ranks;
  for (const std::int64_t rank : lora.ranks) ranks.items.emplace_back(rank);
  json::Object object;
  object.add("mode", to_string(lora.mode));
  object.add("adapter", lora.adapter);
  object.add("modules", lora.modules);
  object.add("ranks", std::move(ranks));
  object.add("lora_alpha", lora.alpha ? json::Value(*lora.alpha) : json::Value());
  object.add("lora_alpha_from", lora.alpha_source);
  object.add("rslora", lora.rslora);
  object.add("dora", lora.dora);
  object.add("target_modules", text_array(lora.targets));
  if (!lora.parameters.empty()) object.add("target_parameters", text_array(lora.parameters));
  object.add("modules_to_save", text_array(lora.copies));
  return object;
}

std::string to_string(const LoraSummary& lora) {
  std::string text;
  if (!lora.adapter.empty()) text += fmt::format("'{}': ", lora.adapter);
  text += fmt::format("{} modules", lora.modules);
  if (lora.modules > 0) {
    text += fmt::format(" of rank {}, lora_alpha ", fmt::join(lora.ranks, ", "));
    text += lora.alpha ? fmt::format("{} ({})", *lora.alpha, lora.alpha_source) : "unknown";
    if (lora.rslora) text += ", rsLoRA";
    if (lora.dora) text += ", DoRA";
    std::vector<std::string> targets = lora.targets;
    targets.insert(targets.end(), lora.parameters.begin(), lora.parameters.end());
    text += fmt::format(", on {}", fmt::join(targets, ", "));
  }
  if (!lora.copies.empty())
    text += fmt::format("; trained copies of {}", fmt::join(lora.copies, ", "));
  return text;
}

}  // namespace shardkit
