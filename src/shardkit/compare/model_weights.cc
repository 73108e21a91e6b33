#include "shardkit/compare/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "shardkit/io/path.h"
#include "shardkit/safetensors/model_reader.h"
#include "shardkit/safetensors/reader.h"
#include "shardkit/safetensors/sharded_index.h"
#include "shardkit/state/traverse.h"
#include "shardkit/torch_pt/reader.h"

namespace shardkit {
namespace {

constexpr std::string_view kTorchFile = "pytorch_model.bin";
constexpr std::string_view kTorchIndex = "pytorch_model.bin.index.json";

/// Appends the tensors of `from`, each of a name that `names` does not have yet.
Status append(Dict from, const std::string& path, std::set<std::string>& names, Dict& tensors) {
  for (auto& item : from.items) {
    const auto& name = *item.first.get_if<std::string>();
    if (!names.insert(name).second)
      return Error(ErrorCode::kIncomplete, "a tensor of this name comes twice")
          .in_file(path)
          .of_tensor(name);
    tensors.items.push_back(std::move(item));
  }
  return {};
}

bool has_tensors_at_top(const Dict& dict) {
  return std::any_of(dict.items.begin(), dict.items.end(),
                     [](const auto& item) { return is_tensor(item.second); });
}

/// The dict that the tensors stand in: the root, or the one under the only key that has tensors.
const Dict* dict_of_tensors(const Dict& root, std::string& key) {
  const Dict* inner = nullptr;
  for (const auto& [name, value] : root.items) {
    if (!holds_tensor(value)) continue;
    const auto* dict = value.get_if<Dict>();
    if (dict == nullptr || inner != nullptr || !has_tensors_at_top(*dict)) return &root;
    inner = dict;
    if (const auto* text = name.get_if<std::string>()) key = *text;
  }
  return inner == nullptr ? &root : inner;
}

/// Every tensor of a .pt, at whatever depth.
Result<Dict> read_torch_file(FileSystem& fs, const std::string& path,
                             std::vector<std::string>& notes) {
  SHARDKIT_ASSIGN(const PtFile file, read_pt(fs, path));
  const auto* root = file.root.get_if<Dict>();
  if (root == nullptr)
    return Error(ErrorCode::kUnsupported, "the file does not hold a dict of tensors")
        .in_file(path)
        .found(kind_name(file.root));
  std::string key;
  const Dict* dict = dict_of_tensors(*root, key);
  if (dict != root) notes.push_back(fmt::format("'{}': the tensors under '{}'", path, key));
  Dict found;
  Status status = traverse_state_dict(
      *dict, TraverseRule::kEveryContainer, [&](const StatePath& at, const Value& value) -> Status {
        if (is_tensor(value)) {
          found.items.emplace_back(Value(to_string(at)), value);
        } else if (holds_tensor(value)) {
          return Error(ErrorCode::kUnsupported,
                       "tensors inside an object, which has no names for them")
              .of_tensor(to_string(at))
              .found(kind_name(value));
        }
        return {};
      });
  if (!status.ok()) return std::move(status).error().in_file(path);
  Dict tensors;
  std::set<std::string> names;
  SHARDKIT_TRY(append(std::move(found), path, names, tensors));
  return tensors;
}

/// The files of pytorch_model.bin.index.json, each of which must hold what is listed there.
Result<Dict> read_torch_index(FileSystem& fs, const std::string& folder,
                              std::vector<std::string>& notes) {
  const std::string index_path = join_path(folder, kTorchIndex);
  SHARDKIT_ASSIGN(const std::string text,
                  read_whole_file(fs, index_path, safetensors::kMaxIndexBytes));
  auto index = safetensors::read_index(text);
  if (!index.ok()) return std::move(index).error().in_file(index_path);
  std::map<std::string, std::set<std::string>> listed;
  for (const auto& [name, file] : index->weight_map) listed[file].insert(name);
  Dict tensors;
  std::set<std::string> names;
  for (const auto& [file, wanted] : listed) {
    const std::string path = join_path(folder, file);
    SHARDKIT_ASSIGN(Dict content, read_torch_file(fs, path, notes));
    std::set<std::string> found;
    for (const auto& [key, tensor] : content.items) found.insert(*key.get_if<std::string>());
    SHARDKIT_TRY(append(std::move(content), path, names, tensors));
    for (const std::string& name : wanted)
      if (!found.contains(name))
        return Error(ErrorCode::kIncomplete, "the file lacks a tensor that the index lists there")
            .in_file(path)
            .of_tensor(name);
  }
  return tensors;
}

Result<Dict> read_all_safetensors(FileSystem& fs, const std::vector<std::string>& paths) {
  Dict tensors;
  std::set<std::string> names;
  for (const std::string& path : paths) {
    SHARDKIT_ASSIGN(Dict content, safetensors::read_safetensors(fs, path));
    SHARDKIT_TRY(append(std::move(content), path, names, tensors));
  }
  return tensors;
}

Result<ModelWeights> read_folder(FileSystem& fs, const std::string& folder) {
  SHARDKIT_ASSIGN(const auto entries, fs.list(folder));
  const auto has = [&](std::string_view name) {
    return std::any_of(entries.begin(), entries.end(),
                       [name](const DirectoryEntry& entry) { return entry.name == name; });
  };
  // As transformers: a file alone comes before an index.
  const auto tell_index = [&](std::string_view file, std::string_view index,
                              std::vector<std::string>& notes) {
    if (has(file) && has(index))
      notes.push_back(fmt::format("'{}' has {} and {}: the first was taken, as transformers does",
                                  folder, file, index));
  };
  ModelWeights weights;
  SHARDKIT_ASSIGN(weights.config, hf::read_config(fs, folder));
  weights.kind = "model folder (safetensors)";
  const std::string one_file = safetensors::weight_file_name(0, 1);
  if (has(one_file) || has(safetensors::kIndexFileName)) {
    tell_index(one_file, safetensors::kIndexFileName, weights.notes);
    SHARDKIT_ASSIGN(weights.tensors, safetensors::read_model(fs, folder));
    return weights;
  }
  if (has(kTorchFile) || has(kTorchIndex)) {
    weights.kind = "model folder (pytorch_model.bin)";
    tell_index(kTorchFile, kTorchIndex, weights.notes);
    SHARDKIT_ASSIGN(weights.tensors,
                    has(kTorchFile)
                        ? read_torch_file(fs, join_path(folder, kTorchFile), weights.notes)
                        : read_torch_index(fs, folder, weights.notes));
    return weights;
  }
  std::vector<std::string> paths;
  for (const DirectoryEntry& entry : entries)
    if (entry.name.ends_with(".safetensors")) paths.push_back(join_path(folder, entry.name));
  if (paths.empty())
    return Error(ErrorCode::kNotFound, "no weights here, neither safetensors nor pytorch_model.bin")
        .in_file(folder);
  weights.notes.push_back(fmt::format("'{}' has no {}: all {} safetensors files were taken", folder,
                                      safetensors::kIndexFileName, paths.size()));
  SHARDKIT_ASSIGN(weights.tensors, read_all_safetensors(fs, paths));
  return weights;
}

}  // namespace

Result<ModelWeights> read_weights(FileSystem& fs, const std::string& path) {
  SHARDKIT_ASSIGN(const FileInfo info, fs.info(path));
  ModelWeights weights;
  if (info.kind == FileKind::kDirectory) {
    SHARDKIT_ASSIGN(weights, read_folder(fs, path));
  } else if (path.ends_with(".safetensors")) {
    weights.kind = "safetensors file";
    SHARDKIT_ASSIGN(weights.tensors, safetensors::read_safetensors(fs, path));
  } else {
    weights.kind = "PyTorch file";
    SHARDKIT_ASSIGN(weights.tensors, read_torch_file(fs, path, weights.notes));
  }
  // Nothing would equal nothing.
  if (weights.tensors.items.empty())
    return Error(ErrorCode::kIncomplete, "the file or folder holds no tensors").in_file(path);
  return weights;
}

}  // namespace shardkit
