// Splits a model into files, and writes and reads the index over them.
#include "shardkit/safetensors/sharded_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shardkit/json/parse.h"
#include "shardkit/json/write.h"

namespace shardkit::safetensors {
namespace {

/// Whether a path stays below the folder it is relative to.
bool stays_below(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.find('\0') != path.npos) return false;
  while (true) {
    const std::size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

std::vector<std::vector<std::size_t>> split_into_files(std::span<const std::uint64_t> bytes,
                                                       std::uint64_t max_shard_bytes) {
  std::vector<std::vector<std::size_t>> files;
  std::vector<std::size_t> open_file;
  std::uint64_t open_bytes = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > max_shard_bytes) {
      files.push_back({i});
      continue;
    }
    if (bytes[i] > max_shard_bytes - open_bytes) {
      files.push_back(std::exchange(open_file, {}));
      open_bytes = 0;
    }
    open_file.push_back(i);
    open_bytes += bytes[i];
  }
  if (!open_file.empty()) files.push_back(std::move(open_file));
  return files;
}

std::string weight_file_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

std::string index_json(const Index& index) {
  auto sorted = index.weight_map;
  std::sort(sorted.begin(), sorted.end());
  json::Object weight_map;
  for (auto& [name, file] : sorted) weight_map.add(std::move(name), std::move(file));
  json::Object metadata;
  if (index.total_parameters) metadata.add("total_parameters", *index.total_parameters);
  if (index.total_size) metadata.add("total_size", *index.total_size);
  json::Object document;
  document.add("metadata", std::move(metadata));
  document.add("weight_map", std::move(weight_map));
  return json::write(std::move(document), json::WriteStyle::kPretty) + '\n';
}

Result<Index> read_index(std::string_view text) {
  SHARDKIT_ASSIGN(const json::Value document, json::parse(text, {.bytes = kMaxIndexBytes}));
  const json::Value* weight_map = document.find("weight_map");
  const auto* members = weight_map == nullptr ? nullptr : weight_map->get_if<json::Object>();
  if (members == nullptr) return Error(ErrorCode::kCorrupt, "the index has no weight_map object");

  Index index;
  if (const json::Value* metadata = document.find("metadata")) {
    const auto total = [&](std::string_view name) -> std::optional<std::uint64_t> {
      const json::Value* value = metadata->find(name);
      return value == nullptr ? std::nullopt : value->as_uint64();
    };
    index.total_parameters = total("total_parameters");
    index.total_size = total("total_size");
  }
  index.weight_map.reserve(members->members.size());
  for (const auto& [name, value] : members->members) {
    const auto* file = value.get_if<std::string>();
    if (file == nullptr)
      return Error(ErrorCode::kCorrupt, "weight_map names no file for a tensor")
          .of_tensor(name)
          .found(kind_name(value));
    if (!stays_below(*file))
      return Error(ErrorCode::kUnsafe, "weight_map leads out of the model's folder")
          .of_tensor(name)
          .found(*file);
    index.weight_map.emplace_back(name, *file);
  }
  return index;
}

}  // namespace shardkit::safetensors
