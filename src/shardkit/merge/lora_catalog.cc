// Takes checkpoints with LoRA names apart.
#include "shardkit/merge/lora_catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "shardkit/hf/ties.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/base_model.h"
#include "shardkit/merge/lora_fold.h"

namespace shardkit {
namespace {

using Names = std::vector<hf::LoraName>;

constexpr std::string_view kBias = ".bias";

/// A tensor of the catalog under another name.
CatalogTensor renamed(const CatalogTensor& tensor, std::string name) {
  CatalogTensor copy = tensor;
  copy.name = std::move(name);
  return copy;
}

/// For each tensor of the checkpoint, whether the model has it: trained copies instead of the
/// originals.
std::vector<bool> in_model(const MergeSource& source, const Names& names,
                           const LoraAdapter* adapter) {
  std::set<std::string_view> copied;
  std::vector<bool> chosen(names.size(), false);
  if (adapter != nullptr) {
    for (const std::size_t copy : adapter->copies) {
      copied.insert(names[copy].model_name);
      chosen[copy] = true;
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const hf::LoraName& name = names[i];
    const bool is_original = name.role == hf::LoraRole::kOriginal ||
                             (name.role == hf::LoraRole::kModel && source.base_folder.has_value());
    if (name.role == hf::LoraRole::kModel || name.role == hf::LoraRole::kOriginal)
      chosen[i] = !is_original || !copied.contains(name.model_name);
  }
  return chosen;
}

Result<Catalog> model_catalog(const MergeSource& source, const Names& names,
                              const LoraAdapter* adapter) {
  const Catalog& held = *source.catalog;
  Catalog model;
  model.world_size = held.world_size;
  model.files = held.files;
  model.skipped = held.skipped;
  model.warnings = held.warnings;
  const std::vector<bool> chosen = in_model(source, names, adapter);
  std::vector<std::optional<std::size_t>> place(names.size());
  std::unordered_map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!chosen[i]) continue;
    const auto [first, is_new] = seen.emplace(names[i].model_name, i);
    if (!is_new)
      return Error(ErrorCode::kCorrupt, "two tensors get one name without PEFT's parts")
          .of_tensor(names[i].model_name)
          .found(
              fmt::format("'{}' and '{}'", held.tensors[first->second].name, held.tensors[i].name));
    place[i] = model.tensors.size();
    model.tensors.push_back(renamed(held.tensors[i], names[i].model_name));
  }
  for (const SharedStorage& pair : held.shared)
    if (place[pair.first] && place[pair.second])
      model.shared.push_back({*place[pair.first], *place[pair.second]});
  return model;
}

/// Of two tied tensors that are saved as one, an adapter changes one alone (peft 0.21 leaves the
/// other as it was): then both are there, as they were trained.
void untie_changed(const MergeSource& source, const Names& names, const LoraAdapter& adapter,
                   LoraMode mode, Catalog& model) {
  if (!source.config) return;
  std::set<std::string> changed;
  for (const std::size_t copy : adapter.copies) changed.insert(names[copy].model_name);
  if (mode == LoraMode::kMerge)
    for (const LoraModule& module : adapter.modules) changed.insert(module.weight());
  std::vector<std::string> present;
  for (const CatalogTensor& tensor : model.tensors) present.push_back(tensor.name);
  for (const hf::TiedPair& tie : hf::ties_left_out(*source.config, present)) {
    if (!changed.contains(tie.canonical) && !changed.contains(tie.alias)) continue;
    const auto original =
        std::find_if(names.begin(), names.end(), [&tie](const hf::LoraName& name) {
          return name.model_name == tie.canonical && name.role != hf::LoraRole::kTrainedCopy;
        });
    if (original == names.end()) continue;
    const auto held = static_cast<std::size_t>(original - names.begin());
    model.tensors.push_back(renamed(source.catalog->tensors[held], tie.alias));
  }
}

/// The biases of the model that were trained with the adapter: all, or those of its modules (peft
/// 0.21, tuners/tuners_utils.py, _get_learnable_bias_state_dict).
std::vector<std::size_t> trained_biases(const Names& names, const LoraAdapter& adapter) {
  using Bias = hf::LoraSettings::Bias;
  std::vector<std::size_t> biases;
  if (adapter.settings.bias == Bias::kNone) return biases;
  std::set<std::string_view> modules;
  for (const LoraModule& module : adapter.modules) modules.insert(module.name);
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string_view name = names[i].model_name;
    if (names[i].role != hf::LoraRole::kModel || !name.ends_with(kBias)) continue;
    name.remove_suffix(kBias.size());
    if (adapter.settings.bias == Bias::kAll || modules.contains(name)) biases.push_back(i);
  }
  return biases;
}

std::vector<CatalogTensor> adapter_tensors(const MergeSource& source, const Names& names,
                                           const LoraAdapter& adapter) {
  const Catalog& held = *source.catalog;
  std::vector<CatalogTensor> tensors;
  const auto add = [&](std::size_t i) {
    tensors.push_back(renamed(held.tensors[i], hf::saved_adapter_name(names[i])));
  };
  for (const LoraModule& module : adapter.modules) {
    add(module.a);
    add(module.b);
    if (module.bias) add(*module.bias);
    if (module.magnitude) add(*module.magnitude);
  }
  for (const std::size_t copy : adapter.copies) add(copy);
  if (source.base_folder) return tensors;  // whose biases are not the trained ones
  for (const std::size_t bias : trained_biases(names, adapter))
    tensors.push_back(renamed(held.tensors[bias], hf::saved_model_name(held.tensors[bias].name)));
  return tensors;
}

/// A base model from elsewhere may be another one. peft finds modules by the last parts of their
/// names, and leaves an adapter without effect where the rest is another. But transformers may know
/// the model under other names than it is published: those are told of alone.
/// @return the modules of the adapter that the base model does not have
Result<std::vector<std::string>> find_modules_not_in_base(const MergeSource& source,
                                                          const LoraAdapter& adapter,
                                                          const Catalog& model) {
  std::map<std::string_view, const CatalogTensor*> by_name;
  for (const CatalogTensor& tensor : model.tensors) by_name[tensor.name] = &tensor;
  std::vector<hf::TiedPair> left_out;
  if (source.config) {
    std::vector<std::string> present;
    for (const CatalogTensor& tensor : model.tensors) present.push_back(tensor.name);
    left_out = hf::ties_left_out(*source.config, present);
  }
  for (const hf::TiedPair& tie : left_out) by_name[tie.alias] = by_name[tie.canonical];
  std::vector<std::string> missing;
  for (const LoraModule& module : adapter.modules) {
    const std::string inside = module.name + ".";
    const auto first = by_name.lower_bound(inside);
    if (first == by_name.end() || !first->first.starts_with(inside)) missing.push_back(module.name);
    const auto weight = by_name.find(inside + "weight");  // none of fused experts
    if (weight == by_name.end()) continue;
    const Dims& shape = weight->second->shape;
    const Dims& a = source.catalog->tensors[module.a].shape;
    const Dims& b = source.catalog->tensors[module.b].shape;
    if (shape.size() != 2 || a.size() != 2 || b.size() != 2) continue;
    if (shape != Dims{b[0], a[1]} && shape != Dims{a[1], b[0]})
      return Error(ErrorCode::kIncomplete, "a weight of the base model does not fit the adapter")
          .in_file(*source.base_folder)
          .of_tensor(weight->first)
          .expected(to_string(Dims{b[0], a[1]}))
          .found(to_string(shape));
  }
  return missing;
}

Status fold_all(const MergeSource& source, const Names& names, const LoraAdapter& adapter,
                Catalog& model) {
  SHARDKIT_TRY(check_foldable(adapter, source.base_folder.has_value()));
  if (source.base_folder) {
    const std::vector<std::size_t> biases = trained_biases(names, adapter);
    if (!biases.empty())
      return Error(ErrorCode::kIncomplete,
                   "biases were trained with the adapter, and the checkpoint does not hold them")
          .of_tensor(names[biases.front()].model_name)
          .expected("bias \"none\" in adapter_config.json");
  }
  std::unordered_map<std::string_view, CatalogTensor*> by_name;
  for (CatalogTensor& tensor : model.tensors) by_name[tensor.name] = &tensor;
  for (const LoraModule& module : adapter.modules) {
    const auto found = by_name.find(module.weight());
    if (found == by_name.end())
      return Error(ErrorCode::kIncomplete, "there is no base weight to fold an adapter into")
          .of_tensor(module.name)
          .expected(module.weight());
    if (found->second->fold)
      return Error(ErrorCode::kUnsupported, "several adapters of one weight cannot be folded")
          .of_tensor(module.weight());
    SHARDKIT_ASSIGN(Fold fold, fold_of(source, adapter, module, *found->second));
    found->second->fold = std::make_shared<const Fold>(std::move(fold));
  }
  return {};
}

// ---- What peft is told ----

/// Names of modules as peft's target_modules takes them: the last part alone, where that names no
/// module of the model without an adapter; else in full.
std::vector<std::string> target_names(const std::vector<std::string>& modules,
                                      const Catalog& model) {
  const auto last_part = [](std::string_view name) { return name.substr(name.rfind('.') + 1); };
  const std::set<std::string_view> wanted(modules.begin(), modules.end());
  std::set<std::string_view> last_parts;
  for (const std::string& module : modules) last_parts.insert(last_part(module));
  std::set<std::string_view> ambiguous;
  for (const CatalogTensor& tensor : model.tensors) {
    const std::string_view name = tensor.name;
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
      const std::string_view module = name.substr(0, dot);
      if (last_parts.contains(last_part(module)) && !wanted.contains(module))
        ambiguous.insert(last_part(module));
    }
  }
  std::vector<std::string> names;
  for (const std::string& module : modules) {
    const std::string_view last = last_part(module);
    std::string name(ambiguous.contains(last) ? module : last);
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  return names;
}

/// The same of target_parameters, which name whatever ends so: the last two parts, or in full.
std::vector<std::string> parameter_names(const std::vector<std::string>& parameters,
                                         const Catalog& model) {
  const std::set<std::string_view> wanted(parameters.begin(), parameters.end());
  std::vector<std::string> names;
  for (const std::string& parameter : parameters) {
    const std::size_t module_end = parameter.rfind('.');
    std::string name = parameter.substr(parameter.rfind('.', module_end - 1) + 1);
    const bool ambiguous =
        std::any_of(model.tensors.begin(), model.tensors.end(), [&](const CatalogTensor& tensor) {
          return tensor.name.ends_with("." + name) && !wanted.contains(tensor.name);
        });
    if (ambiguous) name = parameter;
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(std::move(name));
  }
  return names;
}

LoraSummary summarize(const LoraAdapter& adapter, const Catalog& model, LoraMode mode) {
  LoraSummary summary;
  summary.mode = mode;
  summary.adapter = adapter.name;
  summary.modules = adapter.modules.size();
  summary.alpha = adapter.settings.alpha;
  summary.alpha_source = base_name(adapter.settings.alpha_source);
  summary.rslora = adapter.settings.rslora;
  std::set<std::int64_t> ranks;
  std::vector<std::string> modules, parameters;
  for (const LoraModule& module : adapter.modules) {
    ranks.insert(module.rank);
    (module.parameter.empty() ? modules : parameters).push_back(module.target());
    summary.dora |= module.magnitude.has_value();
  }
  summary.ranks.assign(ranks.begin(), ranks.end());
  summary.targets = target_names(modules, model);
  summary.parameters = parameter_names(parameters, model);
  summary.copies = target_names(adapter.copied, model);
  return summary;
}

std::string config_text(const LoraAdapter& adapter, const LoraSummary& summary, bool with_base) {
  hf::AdapterFacts facts;
  for (const LoraModule& module : adapter.modules) {
    facts.ranks.emplace_back(module.target(), module.rank);
    facts.bias |= module.bias.has_value();
  }
  facts.target_modules = summary.targets;
  facts.target_parameters = summary.parameters;
  facts.modules_to_save = summary.copies;
  facts.dora = summary.dora;
  facts.with_base = with_base;
  return hf::adapter_config_text(adapter.settings, facts);
}

void tell(const LoraAdapter& adapter, const LoraSummary& summary, LoraCatalog& output) {
  if (!adapter.others.empty())
    output.notes.push_back(fmt::format("of several adapters '{}' is taken; left aside: '{}'",
                                       adapter.name, fmt::join(adapter.others, "', '")));
  if (!adapter.copies.empty() && summary.mode != LoraMode::kAdapterOnly)
    output.notes.push_back(fmt::format("trained copies replace the originals of: {}",
                                       fmt::join(summary.copies, ", ")));
  if (summary.modules == 0) return;
  if (summary.mode == LoraMode::kMerge) {
    output.notes.push_back(fmt::format(
        "the adapter is folded into {} weights: rank {}, lora_alpha {}{}", summary.modules,
        fmt::join(summary.ranks, ", "),
        summary.alpha ? fmt::format("{} ({})", *summary.alpha, summary.alpha_source)
                      : "of alpha_pattern",
        adapter.settings.text ? (summary.rslora ? ", rsLoRA" : "")
                              : "; no adapter_config.json says rsLoRA: alpha / rank is the scale"));
    return;
  }
  output.notes.push_back(fmt::format(
      "the adapter is not folded in but stands in lora_adapter/, for peft; --lora merge folds it "
      "({} modules of rank {})",
      summary.modules, fmt::join(summary.ranks, ", ")));
  if (!summary.alpha)
    output.warnings.emplace_back(
        "lora_alpha is not known: it is null in lora_adapter/adapter_config.json, with which peft "
        "loads nothing; --lora-alpha tells it");
}

/// peft loads such an adapter without a word, and leaves the base model's biases.
void warn_of_biases(const MergeSource& source, const LoraAdapter& adapter, LoraMode mode,
                    std::vector<std::string>& warnings) {
  const bool adapter_alone = source.base_folder || holds_adapter_alone(*source.catalog);
  if (mode == LoraMode::kMerge || !adapter_alone ||
      adapter.settings.bias == hf::LoraSettings::Bias::kNone)
    return;
  warnings.emplace_back(
      "adapter_config.json says that biases were trained, and the shards hold none: lora_adapter/ "
      "lacks them");
}

/// What is carried out, of what was asked for.
Result<LoraMode> settle_mode(const MergeSource& source, const Names& names,
                             const LoraAdapter& adapter, LoraMode mode) {
  if (adapter.modules.empty() && mode == LoraMode::kAdapterOnly)
    return Error(ErrorCode::kInvalidArgument,
                 "there is no adapter to write alone: the checkpoint holds trained copies of "
                 "modules, and no LoRA")
        .in_file(source.checkpoint.path);
  const auto of_model = [](const hf::LoraName& name) { return name.role == hf::LoraRole::kModel; };
  const bool has_base = std::any_of(names.begin(), names.end(), [&](const hf::LoraName& name) {
    return of_model(name) && !name.model_name.ends_with(kBias);
  });
  if (has_base) return mode;
  if (mode == LoraMode::kMerge && std::any_of(names.begin(), names.end(), of_model))
    return Error(ErrorCode::kUnsupported,
                 "the shards hold an adapter and biases that were trained with it, but no base "
                 "weights; such an adapter cannot be folded into a base model from elsewhere")
        .in_file(source.checkpoint.path);
  if (mode == LoraMode::kMerge)
    return Error(ErrorCode::kIncomplete,
                 "the shards hold LoRA tensors alone; to fold them, --base_model_dir names the "
                 "folder of the model that was trained")
        .in_file(source.checkpoint.path);
  return LoraMode::kAdapterOnly;
}

}  // namespace

Result<LoraCatalog> take_lora_apart(FileSystem& fs, const MergeSource& source,
                                    const LoraChoice& choice) {
  const Catalog& held = *source.catalog;
  const bool lora =
      std::any_of(held.tensors.begin(), held.tensors.end(),
                  [](const CatalogTensor& tensor) { return hf::is_lora_name(tensor.name); });
  Names names;
  if (lora)
    for (const CatalogTensor& tensor : held.tensors)
      names.push_back(hf::parse_lora_name(tensor.name));
  SHARDKIT_ASSIGN(const std::optional<LoraAdapter> adapter,
                  find_lora_adapter(fs, source, names, choice));
  LoraCatalog result;
  result.model = source.catalog;
  if (!lora) return result;
  SHARDKIT_ASSIGN(Catalog model, model_catalog(source, names, adapter ? &*adapter : nullptr));
  if (adapter) {
    if (source.base_folder) {
      SHARDKIT_ASSIGN(result.not_in_base, find_modules_not_in_base(source, *adapter, model));
      if (!result.not_in_base.empty())
        result.warnings.push_back(
            fmt::format("the base model '{}' lacks {} of {} modules of the adapter: {}, ...",
                        *source.base_folder, result.not_in_base.size(), adapter->modules.size(),
                        result.not_in_base.front()));
    }
    SHARDKIT_ASSIGN(const LoraMode mode, settle_mode(source, names, *adapter, choice.mode));
    if (mode != choice.mode)
      result.notes.emplace_back(
          "the shards hold LoRA tensors alone: only lora_adapter/ is written");
    untie_changed(source, names, *adapter, mode, model);
    result.summary = summarize(*adapter, model, mode);
    tell(*adapter, *result.summary, result);
    warn_of_biases(source, *adapter, mode, result.warnings);
    if (mode == LoraMode::kMerge) SHARDKIT_TRY(fold_all(source, names, *adapter, model));
    if (mode == LoraMode::kAdapterOnly) model.tensors.clear(), model.shared.clear();
    if (mode != LoraMode::kMerge && !adapter->modules.empty()) {
      result.adapter = adapter_tensors(source, names, *adapter);
      result.adapter_config = config_text(*adapter, *result.summary, mode == LoraMode::kAdapter);
    }
  }
  result.model = std::make_shared<const Catalog>(std::move(model));
  return result;
}

}  // namespace shardkit
