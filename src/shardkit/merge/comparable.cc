#include "shardkit/merge/comparable.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/checkpoint/discover.h"
#include "shardkit/compare/catalog_of.h"
#include "shardkit/compare/model_weights.h"
#include "shardkit/merge/kept_dtypes.h"
#include "shardkit/merge/lora_catalog.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/merge/plain_tensors.h"
#include "shardkit/merge/saved_catalog.h"

namespace shardkit {
namespace {

Result<Comparable> open_checkpoint_to_compare(FileSystem& fs, CheckpointFolder folder,
                                              const std::string& hf_folder, PlainTensors plain) {
  SHARDKIT_ASSIGN(MergeSource source, open_merge_source(fs, std::move(folder), hf_folder, plain));
  SHARDKIT_TRY(check_concatenated(fs, source, source.catalog->tensors));
  SHARDKIT_ASSIGN(LoraCatalog lora, take_lora_apart(fs, source, {}));
  Comparable result;
  result.path = source.checkpoint.path;
  result.kind = fmt::format("FSDP checkpoint of {} ranks", source.checkpoint.world_size);
  result.catalog = std::move(lora.model);
  result.notes = std::move(source.checkpoint.notes);
  result.notes.insert(result.notes.end(), result.catalog->warnings.begin(),
                      result.catalog->warnings.end());
  if (source.config) {  // without one compare() knows more
    source.catalog = result.catalog;
    SHARDKIT_ASSIGN(
        SavedCatalog saved,
        saved_catalog(source, std::vector<bool>(source.catalog->tensors.size(), false)));
    result.catalog = std::move(saved.catalog);
    result.notes.insert(result.notes.end(), saved.warnings.begin(), saved.warnings.end());
  }
  result.config = std::move(source.config);
  result.adapter = std::move(lora.adapter);
  result.lora = std::move(lora.summary);
  return result;
}

Result<Comparable> open_weights(FileSystem& fs, const std::string& path) {
  SHARDKIT_ASSIGN(ModelWeights weights, read_weights(fs, path));
  auto catalog = catalog_of(weights.tensors);
  if (!catalog.ok()) return std::move(catalog).error().in_file(path);
  return Comparable{path,
                    std::move(weights.kind),
                    std::make_shared<const Catalog>(*std::move(catalog)),
                    std::move(weights.config),
                    {},
                    {},
                    std::move(weights.notes)};
}

/// Whether names and shapes are the same, in whatever order.
bool hold_the_same(const Catalog& a, const Catalog& b) {
  std::map<std::string_view, const Dims*> shapes;
  for (const CatalogTensor& tensor : a.tensors) shapes[tensor.name] = &tensor.shape;
  return a.tensors.size() == b.tensors.size() &&
         std::all_of(b.tensors.begin(), b.tensors.end(), [&shapes](const CatalogTensor& tensor) {
           const auto found = shapes.find(tensor.name);
           return found != shapes.end() && *found->second == tensor.shape;
         });
}

/// The tensors of a side as transformers saves its model: what torch.save made of a state dict, or
/// a checkpoint without a config, may hold experts and names as they are in memory.
std::shared_ptr<const Catalog> as_saved(const Comparable& side, const hf::ModelConfig* config,
                                        std::vector<std::string>& notes) {
  if (config == nullptr) return side.catalog;
  MergeSource source;
  source.catalog = side.catalog;
  source.config = *config;
  auto saved = saved_catalog(source, std::vector<bool>(side.catalog->tensors.size(), false));
  // What does not fit the config is compared as it is.
  if (!saved.ok() || hold_the_same(*saved->catalog, *side.catalog)) return side.catalog;
  for (const std::string& note : saved->notes)
    notes.push_back(fmt::format("'{}': {}", side.path, note));
  return saved->catalog;
}

/// The tensors of the model, and of the adapter beside them.
std::shared_ptr<const Catalog> with_adapter(const Catalog& model,
                                            const std::vector<CatalogTensor>& adapter) {
  Catalog both = model;
  both.tensors.insert(both.tensors.end(), adapter.begin(), adapter.end());
  return std::make_shared<const Catalog>(std::move(both));
}

}  // namespace

Result<Comparable> open_comparable(FileSystem& fs, std::span<const std::string> paths,
                                   const std::string& hf_folder, PlainTensors plain) {
  if (paths.size() == 1) {
    SHARDKIT_ASSIGN(const FileInfo info, fs.info(paths.front()));
    if (info.kind != FileKind::kDirectory) return open_weights(fs, paths.front());
  }
  auto folder = discover_checkpoint(fs, paths, MissingRanks::kAllowed);
  if (folder.ok()) return open_checkpoint_to_compare(fs, *std::move(folder), hf_folder, plain);
  if (paths.size() > 1 || folder.error().code() != ErrorCode::kNotFound)
    return std::move(folder).error();
  auto weights = open_weights(fs, paths.front());
  // Where there is neither, what discovery says of the folder helps more.
  if (!weights.ok() && weights.error().code() == ErrorCode::kNotFound &&
      !weights.error().tensor() && weights.error().file() == folder.error().file())
    return std::move(folder).error();
  return weights;
}

Result<Comparison> compare(FileSystem& fs, const Comparable& first, const Comparable& second,
                           const hf::DTypeChoice& dtype, const ComparisonOptions& options) {
  const hf::ModelConfig* config_a = first.config ? &*first.config : nullptr;
  const hf::ModelConfig* config_b = second.config ? &*second.config : nullptr;
  SHARDKIT_ASSIGN(hf::DTypeChoice resolved,
                  hf::resolve(dtype, config_a != nullptr ? config_a : config_b));
  // As a merge: with other scales the weights are others.
  for (const Comparable* side : {&first, &second}) keep_float8_scales(*side->catalog, resolved);
  std::vector<std::string> notes;
  auto catalog_a = as_saved(first, config_a != nullptr ? config_a : config_b, notes);
  auto catalog_b = as_saved(second, config_b != nullptr ? config_b : config_a, notes);
  const bool adapters = !first.adapter.empty() && !second.adapter.empty();
  if (adapters) {
    catalog_a = with_adapter(*catalog_a, first.adapter);
    catalog_b = with_adapter(*catalog_b, second.adapter);
  }
  SHARDKIT_ASSIGN(Comparison comparison,
                  compare_catalogs(fs, {std::move(catalog_a), resolved, config_a},
                                   {std::move(catalog_b), resolved, config_b}, options));
  comparison.notes.insert(comparison.notes.begin(), notes.begin(), notes.end());
  if (!adapters)
    for (const Comparable* side : {&first, &second})
      if (side->lora)
        comparison.notes.push_back(
            fmt::format("of '{}' the base model is compared, without its adapter ({})", side->path,
                        to_string(*side->lora)));
  return comparison;
}

}  // namespace shardkit
