// Reads config.json and changes its dtype.
#include "shardkit/hf/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "shardkit/io/path.h"
#include "shardkit/json/parse.h"
#include "shardkit/json/patch.h"
#include "shardkit/json/write.h"

namespace shardkit::hf {
namespace {

/// Model types whose configuration class has tie_word_embeddings = True, in transformers 5.24 and
/// in 4.x. Only decoders, and only where both agree: if we left out an lm_head that the loader does
/// not tie, it would be lost; if we keep one that the loader ties, nothing is.
constexpr std::array<std::string_view, 16> kTiedByDefault{
    "bloom", "cohere",      "cohere2", "falcon", "gemma", "gemma2", "gemma3",     "gemma3_text",
    "gpt2",  "gpt_bigcode", "gpt_neo", "mamba",  "mpt",   "opt",    "starcoder2", "xglm"};

/// Model types whose configuration class, in transformers 5.24, takes a tie_word_embeddings that
/// text_config alone has for its own.
constexpr std::array<std::string_view, 13> kTiedByText{
    "fast_vlm",         "glm4v",           "glm4v_moe",     "glm_ocr",       "llava",
    "llava_next_video", "llava_onevision", "minimax_m3_vl", "perception_lm", "qwen2_5_vl",
    "qwen2_vl",         "vibevoice",       "video_llama_3"};

/// The names of the dtype's member, the newer first (transformers 4.56 renamed it).
constexpr std::array<std::string_view, 2> kDTypeKeys{"dtype", "torch_dtype"};

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const json::Value* find_object(const json::Value& value, std::string_view key) {
  const json::Value* member = value.find(key);
  return member != nullptr && member->get_if<json::Object>() != nullptr ? member : nullptr;
}

std::string find_string(const json::Value& value, std::string_view key) {
  const json::Value* member = value.find(key);
  const auto* text = member == nullptr ? nullptr : member->get_if<std::string>();
  return text == nullptr ? std::string() : *text;
}

std::string without_wrapper(const std::string& name) {
  constexpr std::string_view kWrapper = "FSDP";
  const bool wrapped = name.size() > kWrapper.size() && name.starts_with(kWrapper) &&
                       name[kWrapper.size()] >= 'A' && name[kWrapper.size()] <= 'Z';
  return wrapped ? name.substr(kWrapper.size()) : name;
}

std::optional<bool> find_bool(const json::Value& value, std::string_view key) {
  const json::Value* member = value.find(key);
  const auto* flag = member == nullptr ? nullptr : member->get_if<bool>();
  return flag == nullptr ? std::nullopt : std::optional<bool>(*flag);
}

std::optional<std::int64_t> find_int(const json::Value& value, std::string_view key) {
  const json::Value* member = value.find(key);
  return member == nullptr ? std::nullopt : member->as_int64();
}

std::optional<DType> find_dtype(const json::Value& value) {
  for (const std::string_view key : kDTypeKeys) {
    const std::string text = find_string(value, key);
    std::string_view name = text;
    if (name.starts_with("torch.")) name.remove_prefix(6);
    if (const auto dtype = dtype_from_torch_name(name)) return dtype;
  }
  return std::nullopt;
}

/// "modeling_x.Class" -> "modeling_x.py"; a class of another repository is
/// "owner/name--module.Class".
void add_code_file(const json::Value& value, std::vector<std::string>& files) {
  const auto* text = value.get_if<std::string>();
  if (text == nullptr || text->find("--") != text->npos) return;
  const std::size_t dot = text->rfind('.');
  if (dot == text->npos) return;
  std::string file = text->substr(0, dot);
  std::replace(file.begin(), file.end(), '.', '/');  // a module of a package
  file += ".py";
  if (std::find(files.begin(), files.end(), file) == files.end()) files.push_back(std::move(file));
}

/// Values are names or, of tokenizers, arrays of a slow and a fast one (either may be null).
std::vector<std::string> find_code_files(const json::Value& top) {
  std::vector<std::string> files;
  const json::Value* map = find_object(top, "auto_map");
  if (map == nullptr) return files;
  for (const auto& [name, value] : map->get_if<json::Object>()->members) {
    add_code_file(value, files);
    if (const auto* array = value.get_if<json::Array>())
      for (const json::Value& item : array->items) add_code_file(item, files);
  }
  return files;
}

}  // namespace

Result<ModelConfig> parse_config(std::string text) {
  SHARDKIT_ASSIGN(const json::Value top, json::parse(text, {.python_numbers = true}));
  if (top.get_if<json::Object>() == nullptr)
    return Error(ErrorCode::kCorrupt, "the model's configuration is no JSON object")
        .found(json::kind_name(top));
  const json::Value* nested = find_object(top, "text_config");
  static const json::Value kNothing = json::Object{};
  const json::Value& text_config = nested == nullptr ? kNothing : *nested;

  ModelConfig config;
  config.text = std::move(text);
  if (const json::Value* names = top.find("architectures"))
    if (const auto* array = names->get_if<json::Array>())
      for (const json::Value& item : array->items)
        if (const auto* name = item.get_if<std::string>()) {
          config.architectures.push_back(without_wrapper(*name));
          config.has_wrapper_names |= config.architectures.back() != *name;
        }
  config.model_type = find_string(top, "model_type");
  for (const auto& [name, value] : top.get_if<json::Object>()->members)
    if (std::string type = find_string(value, "model_type"); !type.empty())
      config.parts.push_back({name, std::move(type), find_int(value, "num_attention_heads")});
  config.tie_word_embeddings = find_bool(top, "tie_word_embeddings");
  if (!config.tie_word_embeddings) {
    config.tie_word_embeddings = find_bool(text_config, "tie_word_embeddings");
    config.tie_is_of_text = config.tie_word_embeddings.has_value();
  }
  config.dtype = find_dtype(top);
  if (!config.dtype) config.dtype = find_dtype(text_config);
  config.quantized = find_object(top, "quantization_config") != nullptr ||
                     find_object(text_config, "quantization_config") != nullptr;

  config.code_files = find_code_files(top);

  const auto size = [&](std::string_view key) -> std::optional<std::int64_t> {
    const auto outer = find_int(top, key);
    const auto inner = find_int(text_config, key);
    if (outer && inner && *outer != *inner) return std::nullopt;
    return inner ? inner : outer;
  };
  config.sizes.vocab_size = size("vocab_size");
  config.sizes.hidden_size = size("hidden_size");
  config.sizes.intermediate_size = size("intermediate_size");
  config.sizes.num_attention_heads = size("num_attention_heads");
  config.sizes.num_key_value_heads = size("num_key_value_heads");
  config.sizes.head_dim = size("head_dim");
  config.sizes.num_hidden_layers = size("num_hidden_layers");
  config.sizes.split_ngram_parts = size("split_ngram_parts");
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (!config.sizes.num_experts) config.sizes.num_experts = size(key);
  return config;
}

Result<std::optional<ModelConfig>> read_config(FileSystem& fs, const std::string& folder) {
  constexpr std::uint64_t kLimit = 16 << 20;
  const std::string path = join_path(folder, "config.json");
  auto text = read_whole_file(fs, path, kLimit);
  if (!text.ok()) {
    if (text.error().code() == ErrorCode::kNotFound) return std::optional<ModelConfig>();
    return std::move(text).error();
  }
  auto config = parse_config(*std::move(text));
  if (!config.ok()) return std::move(config).error().in_file(path);
  return std::optional(*std::move(config));
}

bool ties_word_embeddings(const ModelConfig& config) {
  if (config.tie_word_embeddings) return *config.tie_word_embeddings;
  return contains(kTiedByDefault, config.model_type);
}

bool ties_on_loading(const ModelConfig& config) {
  return ties_word_embeddings(config) &&
         (!config.tie_is_of_text || contains(kTiedByText, config.model_type) ||
          contains(kTiedByDefault, config.model_type));
}

Result<std::string> with_dtype(const ModelConfig& config, DType dtype) {
  std::string text = config.text;
  const std::string value = fmt::format("\"{}\"", torch_name(dtype));
  for (const std::string_view key : kDTypeKeys) {
    auto patched = json::replace_member(text, key, value);
    if (patched.ok()) {
      text = *std::move(patched);
    } else if (patched.error().code() != ErrorCode::kNotFound) {
      return std::move(patched).error();
    }
  }
  if (config.has_wrapper_names) {
    json::Array names;
    for (const std::string& name : config.architectures) names.items.emplace_back(name);
    SHARDKIT_ASSIGN(
        text, json::replace_member(text, "architectures",
                                   json::write(std::move(names), json::WriteStyle::kCompact)));
  }
  return text;
}

}  // namespace shardkit::hf
