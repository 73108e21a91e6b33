// Reads and writes adapter_config.json, and reads lora_train_meta.json.
#include "shardkit/hf/lora_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "shardkit/hf/module_pattern.h"
#include "shardkit/json/parse.h"
#include "shardkit/json/write.h"

namespace shardkit::hf {
namespace {

// Each, set to anything that is true to Python, changes what an adapter's tensors
// mean, or adds others (peft 0.21, tuners/lora/variants.py, model.py).
constexpr std::array<std::string_view, 9> kForeignOptions{"alora_invocation_tokens",
                                                          "arrow_config",
                                                          "kasa_config",
                                                          "layer_replication",
                                                          "monteclora_config",
                                                          "trainable_token_indices",
                                                          "use_bdlora",
                                                          "use_qalora",
                                                          "velora_config"};

// peft 0.21, utils/peft_types.py, TaskType. It loads no other.
constexpr std::array<std::string_view, 6> kTaskTypes{
    "SEQ_CLS", "SEQ_2_SEQ_LM", "CAUSAL_LM", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION"};

Error no_number(std::string_view key) {
  return Error(ErrorCode::kCorrupt, fmt::format("'{}' is no number above 0", key));
}

std::optional<double> as_number(const json::Value& value) {
  if (const auto* number = value.get_if<double>()) return *number;
  if (const auto number = value.as_int64()) return static_cast<double>(*number);
  return std::nullopt;
}

Result<double> positive(const json::Value& value, std::string_view key) {
  const auto number = as_number(value);
  if (!number || !std::isfinite(*number) || *number <= 0) return no_number(key);
  return *number;
}

Result<std::int64_t> positive_int(const json::Value& value, std::string_view key) {
  const auto number = value.as_int64();
  if (!number || *number <= 0) return no_number(key);
  return *number;
}

/// Whether it is there and true to Python.
bool is_set(const json::Value* value) {
  if (value == nullptr || value->is_null() || as_number(*value) == 0.0) return false;
  if (const auto* flag = value->get_if<bool>()) return *flag;
  if (const auto* text = value->get_if<std::string>()) return !text->empty();
  if (const auto* list = value->get_if<json::Array>()) return !list->items.empty();
  if (const auto* object = value->get_if<json::Object>()) return !object->members.empty();
  return true;
}

Status read_rank_and_alpha(const json::Value& root, LoraSettings& settings) {
  if (const json::Value* rank = root.find("r"); rank != nullptr && !rank->is_null()) {
    SHARDKIT_ASSIGN(settings.rank, positive_int(*rank, "r"));
  }
  const json::Value* alpha = root.find("lora_alpha");
  if (alpha == nullptr || alpha->is_null() || as_number(*alpha) == 0.0) return {};
  SHARDKIT_ASSIGN(settings.alpha, positive(*alpha, "lora_alpha"));
  return {};
}

void read_task_type(const json::Value& root, LoraSettings& settings) {
  const json::Value* value = root.find("task_type");
  const auto* text = value != nullptr ? value->get_if<std::string>() : nullptr;
  if (text != nullptr && std::find(kTaskTypes.begin(), kTaskTypes.end(), *text) != kTaskTypes.end())
    settings.task_type = *text;
}

Status read_bias(const json::Value& root, LoraSettings& settings) {
  const json::Value* value = root.find("bias");
  if (value == nullptr || value->is_null()) return {};
  const auto* text = value->get_if<std::string>();
  if (text != nullptr && *text == "none") return {};
  if (text != nullptr && *text == "all") {
    settings.bias = LoraSettings::Bias::kAll;
  } else if (text != nullptr && *text == "lora_only") {
    settings.bias = LoraSettings::Bias::kOfModules;
  } else {
    return Error(ErrorCode::kCorrupt, "'bias' is not one of none, all, lora_only")
        .found(text != nullptr ? *text : std::string(json::kind_name(*value)));
  }
  return {};
}

Status read_target_parameters(const json::Value& root, LoraSettings& settings) {
  const json::Value* value = root.find("target_parameters");
  if (value == nullptr || value->is_null()) return {};
  const Error no_list(ErrorCode::kCorrupt, "'target_parameters' is no list of names");
  const auto* list = value->get_if<json::Array>();
  if (list == nullptr) return no_list;
  for (const json::Value& item : list->items) {
    const auto* text = item.get_if<std::string>();
    if (text == nullptr || text->empty()) return no_list;
    settings.target_parameters.push_back(*text);
  }
  return {};
}

template <class T, class Parse>
Status read_pattern(const json::Value& root, std::string_view key, Parse parse,
                    std::vector<std::pair<std::string, T>>& pattern) {
  const json::Value* value = root.find(key);
  if (!is_set(value)) return {};
  const auto* object = value->get_if<json::Object>();
  if (object == nullptr) return Error(ErrorCode::kCorrupt, fmt::format("'{}' is no object", key));
  for (const auto& [name, number] : object->members) {
    SHARDKIT_ASSIGN(const T parsed, parse(number, key));
    pattern.emplace_back(name, parsed);
  }
  return {};
}

/// The value of the first key that names the module.
template <class T>
Result<std::optional<T>> by_pattern(const std::vector<std::pair<std::string, T>>& pattern,
                                    std::string_view module, std::optional<T> otherwise) {
  for (const auto& [key, value] : pattern) {
    SHARDKIT_ASSIGN(const bool named, names_module(key, module));
    if (named) return std::optional<T>(value);
  }
  return otherwise;
}

json::Array text_array(const std::vector<std::string>& texts) {
  json::Array array;
  for (const std::string& text : texts) array.items.emplace_back(text);
  return array;
}

json::Value alpha_value(const std::optional<double>& alpha) {
  if (!alpha) return json::Null{};
  if (*alpha == std::floor(*alpha) && *alpha < 1e15) return static_cast<std::int64_t>(*alpha);
  return *alpha;
}

void set(json::Object& object, std::string_view key, json::Value value) {
  for (auto& [name, present] : object.members) {
    if (name != key) continue;
    present = std::move(value);
    return;
  }
  object.add(std::string(key), std::move(value));
}

/// The rank that most modules have.
std::int64_t usual_rank(const AdapterFacts& facts) {
  std::map<std::int64_t, int> counts;
  for (const auto& [module, rank] : facts.ranks) ++counts[rank];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first;
}

json::Object config_from_facts(const LoraSettings& settings, const AdapterFacts& facts) {
  const std::int64_t rank = settings.rank.value_or(usual_rank(facts));
  json::Object ranks;
  for (const auto& [module, other] : facts.ranks)
    if (other != rank) ranks.add("^" + module, other);
  json::Object object;
  object.add("peft_type", "LORA");
  object.add("task_type", settings.task_type ? json::Value(*settings.task_type) : json::Value());
  object.add("base_model_name_or_path", json::Null{});
  object.add("r", rank);
  object.add("lora_dropout", 0.0);
  object.add("bias", "none");
  object.add("lora_bias", facts.bias);
  object.add("fan_in_fan_out", settings.fan_in_fan_out.value_or(false));
  object.add("use_dora", facts.dora);
  object.add("use_rslora", settings.rslora);
  object.add("rank_pattern", std::move(ranks));
  object.add("alpha_pattern", json::Object{});
  object.add("target_modules", text_array(facts.target_modules));
  if (!facts.target_parameters.empty())
    object.add("target_parameters", text_array(facts.target_parameters));
  object.add("init_lora_weights", true);
  return object;
}

}  // namespace

bool names_parameter(std::string_view target, std::string_view full_name) {
  if (!full_name.ends_with(target)) return false;
  full_name.remove_suffix(target.size());
  return full_name.empty() || full_name.ends_with('.');
}

Result<LoraSettings> parse_adapter_config(std::string_view text) {
  SHARDKIT_ASSIGN(json::Value root, json::parse(text, {.python_numbers = true}));
  if (root.get_if<json::Object>() == nullptr)
    return Error(ErrorCode::kCorrupt, "the adapter's configuration is no JSON object")
        .found(json::kind_name(root));
  LoraSettings settings;
  if (const json::Value* type = root.find("peft_type")) {
    const auto* name = type->get_if<std::string>();
    if (name == nullptr || *name != "LORA")
      return Error(ErrorCode::kUnsupported, "an adapter of another kind than LoRA")
          .found(name != nullptr ? *name : std::string(json::kind_name(*type)));
  }
  SHARDKIT_TRY(read_rank_and_alpha(root, settings));
  SHARDKIT_TRY(read_pattern(root, "rank_pattern", positive_int, settings.rank_pattern));
  SHARDKIT_TRY(read_pattern(root, "alpha_pattern", positive, settings.alpha_pattern));
  SHARDKIT_TRY(read_bias(root, settings));
  SHARDKIT_TRY(read_target_parameters(root, settings));
  read_task_type(root, settings);
  settings.rslora = is_set(root.find("use_rslora"));
  settings.dora = is_set(root.find("use_dora"));
  if (const json::Value* value = root.find("fan_in_fan_out"); value != nullptr && !value->is_null())
    settings.fan_in_fan_out = is_set(value);
  if (const json::Value* value = root.find("init_lora_weights"))
    if (const auto* name = value->get_if<std::string>()) settings.initialization = *name;
  for (const std::string_view option : kForeignOptions)
    if (is_set(root.find(option))) settings.foreign_options.emplace_back(option);
  settings.text = std::move(*root.get_if<json::Object>());
  return settings;
}

Result<LoraSettings> parse_lora_train_meta(std::string_view text) {
  SHARDKIT_ASSIGN(const json::Value root, json::parse(text, {.python_numbers = true}));
  if (root.get_if<json::Object>() == nullptr)
    return Error(ErrorCode::kCorrupt, "the adapter's configuration is no JSON object")
        .found(json::kind_name(root));
  LoraSettings settings;
  SHARDKIT_TRY(read_rank_and_alpha(root, settings));
  read_task_type(root, settings);
  return settings;
}

Result<std::optional<std::int64_t>> rank_of(const LoraSettings& settings, std::string_view module) {
  return by_pattern(settings.rank_pattern, module, settings.rank);
}

Result<std::optional<double>> alpha_of(const LoraSettings& settings, std::string_view module) {
  return by_pattern(settings.alpha_pattern, module, settings.alpha);
}

std::string adapter_config_text(const LoraSettings& settings, const AdapterFacts& facts) {
  json::Object object = settings.text ? *settings.text : config_from_facts(settings, facts);
  set(object, "lora_alpha", alpha_value(settings.alpha));
  set(object, "inference_mode", true);
  if (facts.with_base && !settings.initialization.empty()) set(object, "init_lora_weights", true);
  const json::Value copies = facts.modules_to_save.empty()
                                 ? json::Value()
                                 : json::Value(text_array(facts.modules_to_save));
  const auto present = std::find_if(object.members.begin(), object.members.end(),
                                    [](const auto& m) { return m.first == "modules_to_save"; });
  if (present == object.members.end() || present->second.is_null())
    set(object, "modules_to_save", copies);
  return json::write(json::Value(std::move(object)), json::WriteStyle::kPretty) + "\n";
}

}  // namespace shardkit::hf
