#include "shardkit/merge/output_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "shardkit/base/checked_math.h"
#include "shardkit/safetensors/file_layout.h"
#include "shardkit/safetensors/sharded_index.h"

namespace shardkit {
namespace {

/// A tensor to be written.
struct Chosen {
  std::size_t tensor;  // index into Catalog::tensors
  DType dtype;
  std::uint64_t bytes;
};

Result<PlannedFile> plan_file(const Catalog& catalog, const std::vector<Chosen>& chosen,
                              const std::vector<std::size_t>& members, std::string name) {
  std::vector<safetensors::TensorSpec> specs;
  for (const std::size_t i : members) {
    const CatalogTensor& tensor = catalog.tensors[chosen[i].tensor];
    specs.push_back({tensor.name, chosen[i].dtype, tensor.shape_to_write()});
  }
  SHARDKIT_ASSIGN(safetensors::FileLayout layout, safetensors::lay_out(specs));
  PlannedFile file;
  file.name = std::move(name);
  file.head = std::move(layout.head);
  file.bytes = layout.file_bytes;
  for (const std::size_t spec : layout.order) {
    const Chosen& tensor = chosen[members[spec]];
    file.tensors.push_back({tensor.tensor, tensor.dtype, layout.offsets[spec]});
  }
  return file;
}

/// transformers counts parameters and no buffers (modeling_utils.py, save_pretrained); FSDP leaves
/// buffers as plain tensors beside its distributed parameters.
std::uint64_t count_parameters(const Catalog& catalog, const std::vector<Chosen>& chosen) {
  const bool distributed =
      std::any_of(catalog.tensors.begin(), catalog.tensors.end(),
                  [](const CatalogTensor& tensor) { return tensor.kind != TensorKind::kPlain; });
  std::uint64_t count = 0;
  for (const Chosen& item : chosen) {
    const CatalogTensor& tensor = catalog.tensors[item.tensor];
    if (!distributed || tensor.kind != TensorKind::kPlain)
      count += static_cast<std::uint64_t>(tensor.numel());
  }
  return count;
}

std::string make_index(const Catalog& catalog, const std::vector<Chosen>& chosen,
                       const std::vector<PlannedFile>& files) {
  safetensors::Index index;
  index.total_parameters = count_parameters(catalog, chosen);
  index.total_size = 0;
  for (const Chosen& tensor : chosen) *index.total_size += tensor.bytes;
  for (const PlannedFile& file : files)
    for (const PlannedTensor& step : file.tensors)
      index.weight_map.emplace_back(catalog.tensors[step.tensor].name, file.name);
  return safetensors::index_json(index);
}

std::optional<DType> dominant_float(const std::vector<Chosen>& chosen) {
  std::map<DType, std::uint64_t> bytes;
  for (const Chosen& tensor : chosen)
    if (is_castable_float(tensor.dtype)) bytes[tensor.dtype] += tensor.bytes;
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == bytes.end()) return std::nullopt;
  return most->first;
}

/// @param i  index into the catalog's tensors
Result<Chosen> choose(const Catalog& catalog, std::size_t i, const hf::DTypeChoice& choice) {
  const CatalogTensor& tensor = catalog.tensors[i];
  const DType dtype = hf::output_dtype(choice, tensor.name, tensor.dtype);
  const auto elements = element_count(tensor.shape);
  const auto bytes = elements ? checked_mul(*elements, item_bytes(dtype)) : std::nullopt;
  if (!bytes)
    return Error(ErrorCode::kCorrupt, "a tensor of this shape and dtype has too many bytes")
        .of_tensor(tensor.name)
        .found(fmt::format("{} of {}", to_string(tensor.shape), torch_name(dtype)));
  return Chosen{i, dtype, static_cast<std::uint64_t>(*bytes)};
}

Result<PlannedFile> plan_adapter(const Catalog& catalog, std::size_t first,
                                 const hf::DTypeChoice& choice) {
  std::vector<Chosen> chosen;
  std::vector<std::size_t> members;
  for (std::size_t i = first; i < catalog.tensors.size(); ++i) {
    SHARDKIT_ASSIGN(const Chosen tensor, choose(catalog, i, choice));
    members.push_back(chosen.size());
    chosen.push_back(tensor);
  }
  return plan_file(catalog, chosen, members, std::string(kAdapterFileName));
}

std::shared_ptr<const Catalog> with_adapter(std::shared_ptr<const Catalog> catalog,
                                            std::vector<CatalogTensor> adapter) {
  if (adapter.empty()) return catalog;
  auto both = std::make_shared<Catalog>(*catalog);
  for (CatalogTensor& tensor : adapter) both->tensors.push_back(std::move(tensor));
  return both;
}

}  // namespace

Result<OutputPlan> plan_output(const MergeSource& source, const SavedCatalog& saved,
                               std::vector<CatalogTensor> adapter, const OutputOptions& options) {
  const Catalog& catalog = *saved.catalog;
  std::vector<Chosen> chosen;
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < catalog.tensors.size(); ++i) {
    if (saved.dropped[i]) continue;
    SHARDKIT_ASSIGN(const Chosen tensor, choose(catalog, i, options.dtype));
    chosen.push_back(tensor);
    sizes.push_back(tensor.bytes);
  }
  if (chosen.empty() && adapter.empty())
    return Error(ErrorCode::kInvalidArgument, "the checkpoint holds no tensors to write")
        .in_file(source.checkpoint.path);

  std::vector<std::vector<std::size_t>> split;
  if (!chosen.empty()) split = safetensors::split_into_files(sizes, options.max_shard_bytes);
  std::vector<PlannedFile> files;
  for (std::size_t f = 0; f < split.size(); ++f) {
    SHARDKIT_ASSIGN(PlannedFile file, plan_file(catalog, chosen, split[f],
                                                safetensors::weight_file_name(f, split.size())));
    files.push_back(std::move(file));
  }
  std::optional<std::string> index;
  if (files.size() > 1) index = make_index(catalog, chosen, files);
  const bool has_adapter = !adapter.empty();
  const auto all = with_adapter(saved.catalog, std::move(adapter));
  if (has_adapter) {
    SHARDKIT_ASSIGN(PlannedFile file, plan_adapter(*all, catalog.tensors.size(), options.dtype));
    files.push_back(std::move(file));
  }
  SHARDKIT_ASSIGN(Plan plan, Plan::make(all, std::move(files), options.replicas));
  return OutputPlan{std::move(plan), std::move(index), dominant_float(chosen)};
}

}  // namespace shardkit
