// Joins a base model to the catalog of an adapter.
#include "shardkit/merge/base_model.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "shardkit/compare/catalog_of.h"
#include "shardkit/compare/model_weights.h"
#include "shardkit/hf/lora_name.h"

namespace shardkit {

bool holds_adapter_alone(const Catalog& catalog) {
  return !catalog.tensors.empty() &&
         std::all_of(catalog.tensors.begin(), catalog.tensors.end(),
                     [](const CatalogTensor& tensor) {
                       return hf::is_lora_name(tensor.name) &&
                              hf::parse_lora_name(tensor.name).role != hf::LoraRole::kModel;
                     });
}

Status add_base_model(FileSystem& fs, const std::string& folder, Catalog& catalog) {
  SHARDKIT_ASSIGN(const ModelWeights weights, read_weights(fs, folder));
  auto base = catalog_of(weights.tensors);
  if (!base.ok()) return std::move(base).error().in_file(folder);
  std::set<std::string_view> names;
  for (const CatalogTensor& tensor : catalog.tensors) names.insert(tensor.name);
  std::set<std::string> paths;
  for (const CatalogTensor& tensor : base->tensors) {
    if (names.contains(tensor.name))
      return Error(ErrorCode::kCorrupt, "the base model holds a tensor of the adapter, too")
          .in_file(folder)
          .of_tensor(tensor.name);
    for (const Piece& piece : tensor.pieces)
      if (const FileRange* file = piece.storage->file()) paths.insert(*file->path);
  }
  for (const std::string& path : paths) {
    SHARDKIT_ASSIGN(const FileInfo info, fs.info(path));
    catalog.files.push_back({path, info.bytes, info.modified_ns, 0});
  }
  for (CatalogTensor& tensor : base->tensors) catalog.tensors.push_back(std::move(tensor));
  catalog.warnings.insert(catalog.warnings.end(), weights.notes.begin(), weights.notes.end());
  return {};
}

}  // namespace shardkit
