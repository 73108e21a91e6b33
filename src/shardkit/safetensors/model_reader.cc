#include "shardkit/safetensors/model_reader.h"

#include <map>
#include <set>
#include <utility>

#include "shardkit/io/path.h"
#include "shardkit/safetensors/reader.h"
#include "shardkit/safetensors/sharded_index.h"

namespace shardkit::safetensors {
namespace {

using Names = std::set<std::string>;

/// Adds the tensors of one file, which must be the ones that the index lists there.
Status add_file(FileSystem& fs, const std::string& path, Names& listed, Dict& tensors) {
  SHARDKIT_ASSIGN(Dict file, read_safetensors(fs, path));
  for (auto& [key, tensor] : file.items) {
    const std::string& name = *key.get_if<std::string>();
    if (listed.erase(name) == 0)
      return Error(ErrorCode::kIncomplete, "the index does not list the tensor in this file")
          .in_file(path)
          .of_tensor(name);
    tensors.items.emplace_back(std::move(key), std::move(tensor));
  }
  if (listed.empty()) return {};
  return Error(ErrorCode::kIncomplete, "the file lacks a tensor that the index lists there")
      .in_file(path)
      .of_tensor(*listed.begin());
}

}  // namespace

Result<Dict> read_model(FileSystem& fs, const std::string& folder) {
  const std::string one_file = join_path(folder, weight_file_name(0, 1));
  const std::string index_path = join_path(folder, kIndexFileName);
  if (fs.info(one_file).ok() || !fs.info(index_path).ok()) return read_safetensors(fs, one_file);
  SHARDKIT_ASSIGN(const std::string text, read_whole_file(fs, index_path, kMaxIndexBytes));
  auto index = read_index(text);
  if (!index.ok()) return std::move(index).error().in_file(index_path);
  std::map<std::string, Names> by_file;
  for (const auto& [name, file] : index->weight_map) by_file[file].insert(name);
  Dict tensors;
  for (auto& [file, listed] : by_file)
    SHARDKIT_TRY(add_file(fs, join_path(folder, file), listed, tensors));
  return tensors;
}

}  // namespace shardkit::safetensors
