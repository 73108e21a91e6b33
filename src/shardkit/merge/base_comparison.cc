#include "shardkit/merge/base_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "shardkit/compare/catalog_of.h"
#include "shardkit/compare/model_weights.h"
#include "shardkit/compare/tensor_pairs.h"
#include "shardkit/hf/experts.h"
#include "shardkit/merge/saved_catalog.h"

namespace shardkit {
namespace {

void add_names(std::string_view what, const std::vector<std::string>& names, std::string& text) {
  constexpr std::size_t kMost = 5;
  if (names.empty()) return;
  text += fmt::format("; {} {}: ", names.size(), what);
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMost) text += ", ...";
}

void compare_vocabularies(const MergeSource& source, const hf::ModelConfig& base,
                          BaseModelComparison& result) {
  if (!source.config) return;
  const auto ours = source.config->sizes.vocab_size;
  const auto theirs = base.sizes.vocab_size;
  if (ours && theirs && *ours != *theirs)
    result.other_config.push_back(fmt::format("vocab_size {} against {}", *ours, *theirs));
}

}  // namespace

bool BaseModelComparison::agrees() const {
  return missing.empty() && extra.empty() && other_shape.empty() && other_config.empty();
}

Result<BaseModelComparison> compare_with_base_model(FileSystem& fs, const MergeSource& source,
                                                    const std::string& folder) {
  SHARDKIT_ASSIGN(const ModelWeights weights, read_weights(fs, folder));
  auto base = catalog_of(weights.tensors);
  if (!base.ok()) return std::move(base).error().in_file(folder);
  BaseModelComparison result;
  result.folder = folder;
  result.tensors = base->tensors.size();
  SHARDKIT_ASSIGN(const SavedCatalog saved,
                  saved_catalog(source, std::vector<bool>(source.catalog->tensors.size(), false)));
  const TensorPairs pairs =
      pair_tensors(*saved.catalog, *base, source.config ? &*source.config : nullptr,
                   weights.config ? &*weights.config : nullptr);
  for (const TensorPair& pair : pairs.pairs) {
    if (!pair.second) {
      result.extra.push_back(pair.name);
      continue;
    }
    const CatalogTensor& theirs = base->tensors[*pair.second];
    const bool own = theirs.name == pair.name;  // no tied tensor that stands in
    const bool expert = own && hf::parse_expert_name(pair.name).has_value();
    result.experts += expert ? 1 : 0;
    if (!pair.first) {
      result.missing.push_back(pair.name);
      continue;
    }
    const CatalogTensor& ours = saved.catalog->tensors[*pair.first];
    if (ours.shape_to_write() != theirs.shape_to_write()) {
      result.other_shape.push_back(fmt::format("'{}': {} against {}", pair.name,
                                               to_string(ours.shape_to_write()),
                                               to_string(theirs.shape_to_write())));
      continue;
    }
    result.same += own ? 1 : 0;
    result.experts_same += expert ? 1 : 0;
  }
  if (weights.config) compare_vocabularies(source, *weights.config, result);
  return result;
}

std::string describe(const BaseModelComparison& comparison) {
  std::string text =
      fmt::format("{} of {} tensors of the base model '{}' are there with the same shape",
                  comparison.same, comparison.tensors, comparison.folder);
  if (comparison.experts > 0)
    text += fmt::format(", {} of {} of experts", comparison.experts_same, comparison.experts);
  add_names("missing", comparison.missing, text);
  add_names("more", comparison.extra, text);
  add_names("of another shape", comparison.other_shape, text);
  add_names("different in config.json", comparison.other_config, text);
  return text;
}

}  // namespace shardkit
