// Finds adapters among the tensors of a checkpoint, and what files say of them.
#include "shardkit/merge/lora_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "shardkit/io/path.h"
#include "shardkit/merge/lora_parameters.h"

namespace shardkit {
namespace {

constexpr std::uint64_t kConfigLimit = 16 << 20;
constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kMetaName = "lora_train_meta.json";
/// PEFT's name for an adapter that got none; the only one that verl trains.
constexpr std::string_view kDefaultAdapter = "default";

bool is_of_adapter(hf::LoraRole role) {
  return role != hf::LoraRole::kModel && role != hf::LoraRole::kOriginal &&
         role != hf::LoraRole::kOtherKind && role != hf::LoraRole::kUnknown;
}

Error other_kind(std::string_view name) {
  return Error(ErrorCode::kUnsupported, "a tensor of an adapter of another kind than LoRA")
      .of_tensor(name);
}

/// peft's other tuners (LoHa, LoKr, OFT, IA3, LN tuning, ...) wrap modules as LoRA does: beside
/// "base_layer" such a module has only what belongs to an adapter.
Status check_wrapped_modules(const Catalog& catalog, const std::vector<hf::LoraName>& names) {
  constexpr std::string_view kWrapped = ".base_layer.";
  std::set<std::string, std::less<>> wrapped;
  for (const CatalogTensor& tensor : catalog.tensors)
    for (std::size_t at = tensor.name.find(kWrapped); at != std::string::npos;
         at = tensor.name.find(kWrapped, at + 1))
      wrapped.insert(tensor.name.substr(0, at));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].role != hf::LoraRole::kModel) continue;
    const std::string_view name = catalog.tensors[i].name;
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      if (!name.substr(dot).starts_with(kWrapped) && wrapped.contains(name.substr(0, dot)))
        return other_kind(name);
  }
  return {};
}

std::string listed(const std::set<std::string>& names) {
  return fmt::format("'{}'", fmt::join(names, "', '"));
}

Result<std::string> choose_adapter(const std::set<std::string>& present,
                                   const std::string& wanted) {
  if (!wanted.empty()) {
    if (present.contains(wanted)) return wanted;
    return Error(ErrorCode::kNotFound, "the checkpoint holds no adapter of this name")
        .expected(listed(present))
        .found(wanted);
  }
  if (present.size() > 1)
    return Error(ErrorCode::kInvalidArgument,
                 "the checkpoint holds several adapters; --adapter chooses one")
        .found(listed(present));
  return *present.begin();
}

/// The tensors of one module, as they come.
struct Parts {
  std::string name;
  std::map<hf::LoraRole, std::size_t> tensors;
};

Error no_pair(const Parts& parts, std::string what) {
  return Error(ErrorCode::kIncomplete, std::move(what)).of_tensor(parts.name);
}

Result<LoraModule> pair_up(const Catalog& catalog, const Parts& parts) {
  const auto index = [&](hf::LoraRole role) {
    const auto found = parts.tensors.find(role);
    return found == parts.tensors.end() ? std::nullopt : std::optional(found->second);
  };
  LoraModule module;
  module.name = parts.name;
  module.embedding = index(hf::LoraRole::kEmbeddingA) || index(hf::LoraRole::kEmbeddingB);
  const auto a = index(module.embedding ? hf::LoraRole::kEmbeddingA : hf::LoraRole::kA);
  const auto b = index(module.embedding ? hf::LoraRole::kEmbeddingB : hf::LoraRole::kB);
  if (!a || !b) return no_pair(parts, "a module has only one of lora_A and lora_B");
  if (module.embedding && (index(hf::LoraRole::kA) || index(hf::LoraRole::kB)))
    return no_pair(parts,
                   "a module has lora_embedding_A and lora_embedding_B beside lora_A or "
                   "lora_B");
  module.a = *a;
  module.b = *b;
  module.bias = index(hf::LoraRole::kBias);
  module.magnitude = index(hf::LoraRole::kMagnitude);
  const Dims& in = catalog.tensors[module.a].shape;
  const Dims& out = catalog.tensors[module.b].shape;
  if (in.size() < 2 || out.size() < 2 || in[0] != out[1] || in[0] < 1)
    return no_pair(parts, "the shapes of lora_A and lora_B do not fit each other")
        .found(fmt::format("A {}, B {}", to_string(in), to_string(out)));
  module.rank = in[0];
  return module;
}

Status collect(const Catalog& catalog, const std::vector<hf::LoraName>& names,
               LoraAdapter& adapter) {
  std::vector<Parts> all;
  std::map<std::string, std::size_t> by_module;
  std::set<std::string> copied;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const hf::LoraName& name = names[i];
    if (!is_of_adapter(name.role) || name.adapter != adapter.name) continue;
    if (name.role == hf::LoraRole::kTrainedCopy) {
      adapter.copies.push_back(i);
      if (copied.insert(name.module).second) adapter.copied.push_back(name.module);
      continue;
    }
    const auto [place, is_new] = by_module.emplace(name.module, all.size());
    if (is_new) all.push_back({name.module, {}});
    if (!all[place->second].tensors.emplace(name.role, i).second)
      return Error(ErrorCode::kCorrupt, "a tensor of the adapter is there twice, under two names")
          .of_tensor(catalog.tensors[i].name);
  }
  for (const Parts& parts : all) {
    SHARDKIT_ASSIGN(LoraModule module, pair_up(catalog, parts));
    adapter.modules.push_back(std::move(module));
  }
  return {};
}

// ---- What the files say ----

template <class T>
Status agree(std::string_view what, std::optional<T>& known, std::string& known_from,
             const std::optional<T>& said, const std::string& said_by) {
  if (!said) return {};
  if (known && *known != *said)
    return Error(ErrorCode::kIncomplete, fmt::format("two sources disagree on {}", what))
        .expected(fmt::format("{} ({})", *known, known_from))
        .found(fmt::format("{} ({})", *said, said_by));
  if (!known) known_from = said_by;
  known = said;
  return {};
}

/// Two adapter_config.json must tell the same of how tensors are folded.
Status check_other_config(const hf::LoraSettings& known, const hf::LoraSettings& said,
                          const std::string& path) {
  const std::pair<std::string_view, bool> members[] = {
      {"use_rslora", known.rslora == said.rslora},
      {"use_dora", known.dora == said.dora},
      {"fan_in_fan_out", known.fan_in_fan_out == said.fan_in_fan_out},
      {"rank_pattern", known.rank_pattern == said.rank_pattern},
      {"alpha_pattern", known.alpha_pattern == said.alpha_pattern},
      {"bias", known.bias == said.bias},
      {"target_parameters", known.target_parameters == said.target_parameters},
      {"init_lora_weights", known.initialization == said.initialization},
      {"other options", known.foreign_options == said.foreign_options}};
  for (const auto& [member, agrees] : members)
    if (!agrees)
      return Error(ErrorCode::kIncomplete,
                   fmt::format("another adapter_config.json disagrees on {}", member))
          .in_file(path);
  return {};
}

/// Takes over what another file says. Of two adapter_config.json the first is written again.
Status add_settings(hf::LoraSettings said, const std::string& path, hf::LoraSettings& known) {
  std::optional<std::int64_t> rank = known.rank;
  std::optional<double> alpha = known.alpha;
  std::string rank_source = known.rank_source, alpha_source = known.alpha_source;
  SHARDKIT_TRY(agree("the rank of the adapter", rank, rank_source, said.rank, path));
  SHARDKIT_TRY(agree("lora_alpha", alpha, alpha_source, said.alpha, path));
  if (known.text && said.text) SHARDKIT_TRY(check_other_config(known, said, path));
  if (!known.text && said.text) {
    if (!said.task_type) said.task_type = known.task_type;
    known = std::move(said);
  } else if (!known.task_type) {
    known.task_type = said.task_type;
  }
  known.rank = rank;
  known.alpha = alpha;
  known.rank_source = rank_source;
  known.alpha_source = alpha_source;
  return {};
}

/// Rank 0 wrote them beside its shards, whose folder may come anywhere among those that are joined.
std::vector<std::string> shard_folders(const MergeSource& source) {
  std::vector<std::string> folders = {source.checkpoint.path};
  folders.insert(folders.end(), source.checkpoint.more_folders.begin(),
                 source.checkpoint.more_folders.end());
  return folders;
}

/// Where the files of an adapter may lie, the likeliest first.
std::vector<std::string> config_folders(const MergeSource& source, const LoraAdapter& adapter) {
  std::vector<std::string> folders;
  for (const std::string& shards : shard_folders(source)) {
    folders.push_back(join_path(shards, "lora_adapter"));
    folders.push_back(shards);
  }
  if (source.checkpoint.hf_folder) folders.push_back(*source.checkpoint.hf_folder);
  const bool unnamed = adapter.name.empty() || adapter.name == kDefaultAdapter;
  std::vector<std::string> all;
  if (!unnamed)
    for (const std::string& folder : folders) all.push_back(join_path(folder, adapter.name));
  // A file without a name is the default's, or that of the only adapter.
  if (unnamed || adapter.others.empty()) all.insert(all.end(), folders.begin(), folders.end());
  return all;
}

/// Takes over what a file says, where it is there.
Status read_settings_file(FileSystem& fs, const std::string& path,
                          Result<hf::LoraSettings> (*parse)(std::string_view),
                          LoraAdapter& adapter) {
  if (const auto there = fs.info(path); !there.ok())
    return there.error().code() == ErrorCode::kNotFound ? Status() : there.error();
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, path, kConfigLimit));
  auto settings = parse(text);
  if (!settings.ok()) return std::move(settings).error().in_file(path);
  return add_settings(*std::move(settings), path, adapter.settings);
}

Status read_settings(FileSystem& fs, const MergeSource& source, LoraAdapter& adapter) {
  for (const std::string& folder : config_folders(source, adapter))
    SHARDKIT_TRY(
        read_settings_file(fs, join_path(folder, kConfigName), hf::parse_adapter_config, adapter));
  const bool is_default = adapter.name.empty() || adapter.name == kDefaultAdapter;
  if (!is_default && !adapter.others.empty()) return {};
  for (const std::string& folder : shard_folders(source))
    SHARDKIT_TRY(
        read_settings_file(fs, join_path(folder, kMetaName), hf::parse_lora_train_meta, adapter));
  return {};
}

Status check_settings(const LoraAdapter& adapter) {
  const hf::LoraSettings& settings = adapter.settings;
  for (const LoraModule& module : adapter.modules) {
    SHARDKIT_ASSIGN(const auto rank, hf::rank_of(settings, module.target()));
    if (rank && *rank != module.rank)
      return Error(ErrorCode::kIncomplete,
                   "the adapter's tensors have another rank than its files say")
          .in_file(settings.rank_source)
          .of_tensor(module.target())
          .expected(std::to_string(*rank))
          .found(std::to_string(module.rank));
    if (settings.text && settings.dora != module.magnitude.has_value())
      return Error(ErrorCode::kIncomplete,
                   "use_dora in adapter_config.json contradicts the tensors")
          .of_tensor(module.name)
          .expected(settings.dora ? "a lora_magnitude_vector" : "no lora_magnitude_vector");
  }
  return {};
}

}  // namespace

std::string_view to_string(LoraMode mode) {
  switch (mode) {
    case LoraMode::kAdapter: return "adapter";
    case LoraMode::kMerge: return "merge";
    case LoraMode::kAdapterOnly: return "adapter-only";
  }
  return "";
}

Result<std::optional<LoraAdapter>> find_lora_adapter(FileSystem& fs, const MergeSource& source,
                                                     const std::vector<hf::LoraName>& names,
                                                     const LoraChoice& choice) {
  std::set<std::string> present;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].role == hf::LoraRole::kOtherKind)
      return other_kind(source.catalog->tensors[i].name);
    if (names[i].role == hf::LoraRole::kUnknown)
      return Error(ErrorCode::kUnsupported, "a tensor of an adapter of unknown form")
          .of_tensor(source.catalog->tensors[i].name);
    if (is_of_adapter(names[i].role)) present.insert(names[i].adapter);
  }
  if (!names.empty()) SHARDKIT_TRY(check_wrapped_modules(*source.catalog, names));
  if (present.empty()) {
    if (choice == LoraChoice{}) return std::optional<LoraAdapter>();
    return Error(ErrorCode::kInvalidArgument,
                 "options for LoRA are given, but the checkpoint holds no LoRA tensors")
        .in_file(source.checkpoint.path);
  }
  LoraAdapter adapter;
  SHARDKIT_ASSIGN(adapter.name, choose_adapter(present, choice.adapter));
  for (const std::string& other : present)
    if (other != adapter.name) adapter.others.push_back(other);
  SHARDKIT_TRY(collect(*source.catalog, names, adapter));
  SHARDKIT_TRY(read_settings(fs, source, adapter));
  SHARDKIT_TRY(agree("lora_alpha", adapter.settings.alpha, adapter.settings.alpha_source,
                     choice.alpha, "--lora-alpha"));
  SHARDKIT_TRY(find_parameters(source, names, adapter));
  SHARDKIT_TRY(check_settings(adapter));
  return std::optional(std::move(adapter));
}

}  // namespace shardkit
