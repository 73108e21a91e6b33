#include "shardkit/inspect/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "shardkit/inspect/value_rows.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/decide_output.h"
#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/merge/merge_report.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/safetensors/reader.h"
#include "shardkit/safetensors/sharded_index.h"
#include "shardkit/torch_pt/reader.h"

namespace shardkit {
namespace {

Result<Inspection> inspect_torch_file(FileSystem& fs, const std::string& path) {
  SHARDKIT_ASSIGN(const PtFile file, read_pt(fs, path));
  Inspection inspection;
  inspection.path = path;
  inspection.kind = InspectedKind::kTorchFile;
  add_rows(file.root, inspection);
  return inspection;
}

Result<Inspection> inspect_safetensors(FileSystem& fs, const std::string& path) {
  SHARDKIT_ASSIGN(Dict tensors, safetensors::read_safetensors(fs, path));
  Inspection inspection;
  inspection.path = path;
  inspection.kind = InspectedKind::kSafetensorsFile;
  add_rows(Value(std::move(tensors)), inspection);
  return inspection;
}

/// {tensor, file}
using Places = std::vector<std::pair<std::string, std::string>>;

/// What the index of a model folder lists; nothing without one.
Result<std::optional<Places>> listed_places(FileSystem& fs, const std::string& folder) {
  const std::string path = join_path(folder, safetensors::kIndexFileName);
  if (!fs.info(path).ok()) return std::optional<Places>();
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, path, safetensors::kMaxIndexBytes));
  auto index = safetensors::read_index(text);
  if (!index.ok()) return std::move(index).error().in_file(path);
  return std::optional(std::move(index->weight_map));
}

/// A tensor that the index lists in a file where it is not will not be found, wherever else it is.
void check_index(Places listed, Places present, Inspection& inspection) {
  std::sort(listed.begin(), listed.end());
  std::sort(present.begin(), present.end());
  std::size_t found = 0;
  for (const auto& place : listed) {
    if (std::binary_search(present.begin(), present.end(), place)) {
      ++found;
    } else {
      inspection.problems.push_back(
          fmt::format("the index lists '{}' in '{}', where it is not", place.first, place.second));
    }
  }
  if (found < present.size())
    inspection.problems.push_back(
        fmt::format("{} tensors are not in the index", present.size() - found));
}

bool has(const std::vector<DirectoryEntry>& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(),
                     [name](const DirectoryEntry& entry) { return entry.name == name; });
}

Result<Inspection> inspect_model_folder(FileSystem& fs, const std::string& path,
                                        const std::vector<DirectoryEntry>& entries) {
  Inspection inspection;
  inspection.path = path;
  inspection.kind = InspectedKind::kModelFolder;
  auto listed = listed_places(fs, path);
  if (!listed.ok()) inspection.problems.push_back(listed.error().message());
  std::set<std::string> files;
  for (const DirectoryEntry& entry : entries)
    if (entry.name.ends_with(".safetensors")) files.insert(entry.name);
  if (listed.ok() && *listed)
    for (const auto& [name, file] : **listed) files.insert(file);
  Places present;
  for (const std::string& file : files) {
    auto tensors = safetensors::read_safetensors(fs, join_path(path, file));
    if (!tensors.ok()) {
      inspection.problems.push_back(tensors.error().message());
      continue;
    }
    for (const auto& [name, tensor] : tensors->items)
      present.emplace_back(*name.get_if<std::string>(), file);
    add_rows(Value(*std::move(tensors)), inspection);
  }
  if (listed.ok() && *listed) check_index(**std::move(listed), std::move(present), inspection);
  if (has(entries, safetensors::weight_file_name(0, 1)) &&
      has(entries, safetensors::kIndexFileName))
    inspection.problems.push_back(
        fmt::format("{} stands beside an index, and transformers loads it alone",
                    safetensors::weight_file_name(0, 1)));
  if (inspection.tensors.empty() && inspection.problems.empty())
    inspection.notes.emplace_back("no weights in safetensors form here");
  return inspection;
}

void add_catalog(const Catalog& catalog, Inspection& inspection) {
  const DeviceMesh* shown = nullptr;  // the tensors of a rank's file share their mesh
  inspection.tensors.reserve(catalog.tensors.size());
  for (const CatalogTensor& tensor : catalog.tensors) {
    TensorRow row;
    row.name = tensor.name;
    row.kind = to_string(tensor.kind);
    row.dtype = torch_name(tensor.dtype);
    row.shape = tensor.shape;
    row.layout = describe_layout(tensor);
    row.pieces = tensor.pieces.size();
    row.bytes = static_cast<std::uint64_t>(tensor.bytes());
    add_row(std::move(row), inspection);
    if (!tensor.sharding || tensor.sharding->mesh.get() == shown) continue;
    shown = tensor.sharding->mesh.get();
    add_mesh(*shown, inspection);
  }
  for (const SharedStorage& pair : catalog.shared)
    inspection.ties.push_back(fmt::format("{} = {}", catalog.tensors[pair.second].name,
                                          catalog.tensors[pair.first].name));
  inspection.notes.insert(inspection.notes.end(), catalog.warnings.begin(), catalog.warnings.end());
  for (const SkippedEntry& entry : catalog.skipped)
    inspection.skipped.push_back(fmt::format("{} ({})", entry.name, entry.kind));
}

/// What a merge with default options writes.
MergeForecast forecast_merge(const MergeSource& source, const OutputDecision& decision) {
  const MergeOptions defaults;
  MergeForecast forecast;
  forecast.weight_bytes = decision.output.plan.summary().write_bytes;
  forecast.weight_files = decision.output.plan.files().size();
  forecast.sidecar_files = source.sidecars.size();
  forecast.memory_bytes = defaults.transfer.memory_budget;
  forecast.dtype = torch_name(defaults.dtype.dtype);
  return forecast;
}

Inspection inspect_checkpoint(FileSystem& fs, CheckpointFolder folder) {
  Inspection inspection;
  inspection.path = folder.path;
  inspection.kind = InspectedKind::kCheckpoint;
  inspection.fsdp_version = folder.fsdp_version;
  inspection.world_size = folder.world_size;
  inspection.notes = folder.notes;
  auto source = open_merge_source(fs, std::move(folder), "", PlainTensors::kAuto);
  if (!source.ok()) {
    inspection.problems.push_back(source.error().message());
    return inspection;
  }
  add_catalog(*source->catalog, inspection);
  const auto decision = decide_output(fs, *source, OutputChoices{}, TensorBytes::kUnread);
  if (!decision.ok()) {
    inspection.problems.push_back(decision.error().message());
    return inspection;
  }
  inspection.lora = decision->lora;
  inspection.forecast = forecast_merge(*source, *decision);
  MergeReport report = make_merge_report(*source, *decision);
  inspection.notes = std::move(report.warnings);
  inspection.notes.insert(inspection.notes.end(), report.notes.begin(), report.notes.end());
  return inspection;
}

bool is_model_folder(const std::vector<DirectoryEntry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.name == "config.json" || entry.name.ends_with(".safetensors");
  });
}

}  // namespace

std::string_view to_string(InspectedKind kind) {
  switch (kind) {
    case InspectedKind::kCheckpoint: return "FSDP checkpoint";
    case InspectedKind::kTorchFile: return "PyTorch file";
    case InspectedKind::kSafetensorsFile: return "safetensors file";
    case InspectedKind::kModelFolder: return "Hugging Face model folder";
  }
  return "";
}

Result<Inspection> inspect(FileSystem& fs, const std::string& path) {
  return inspect(fs, {&path, 1});
}

Result<Inspection> inspect(FileSystem& fs, std::span<const std::string> paths) {
  const std::string path = paths.empty() ? "" : paths.front();
  if (paths.size() == 1) {
    SHARDKIT_ASSIGN(const FileInfo info, fs.info(path));
    if (info.kind == FileKind::kRegular)
      return path.ends_with(".safetensors") ? inspect_safetensors(fs, path)
                                            : inspect_torch_file(fs, path);
    if (info.kind != FileKind::kDirectory)
      return Error(ErrorCode::kInvalidArgument, "neither a file nor a folder").in_file(path);
  }
  auto folder = discover_checkpoint(fs, paths, MissingRanks::kAllowed);
  if (folder.ok()) return inspect_checkpoint(fs, *std::move(folder));
  if (paths.size() == 1) {
    SHARDKIT_ASSIGN(const auto entries, fs.list(path));
    if (is_model_folder(entries)) return inspect_model_folder(fs, path, entries);
  }
  if (folder.error().code() != ErrorCode::kIncomplete &&
      folder.error().code() != ErrorCode::kCorrupt)
    return folder.error();
  Inspection inspection;
  inspection.path = path;
  inspection.problems.push_back(folder.error().message());
  return inspection;
}

}  // namespace shardkit
