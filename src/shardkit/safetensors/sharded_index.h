// A model in several safetensors files: how tensors are split among them, file names, the index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"

namespace shardkit::safetensors {

/// Name of the file that says where each tensor is; there is none beside a single weight file.
inline constexpr std::string_view kIndexFileName = "model.safetensors.index.json";

/// Splits tensors, given their sizes in the order of the state dict, into files: huggingface_hub's
/// split_state_dict_into_shards_factory (2.4, serialization/_base.py). A tensor above the limit
/// gets a file of its own at once, while the file being filled stays open; a file is closed when
/// the next tensor would not fit.
///
/// @return for each file the indices into `bytes`, in order; no file for no tensors
std::vector<std::vector<std::size_t>> split_into_files(std::span<const std::uint64_t> bytes,
                                                       std::uint64_t max_shard_bytes);

/// "model.safetensors" where count is 1, else "model-00001-of-00003.safetensors" for index 0.
/// REQUIRES: index < count.
std::string weight_file_name(std::size_t index, std::size_t count);

/// The longest index that is read: a tree of it takes up to 30 times as much. Those of today's
/// largest models take 15 MB.
inline constexpr std::size_t kMaxIndexBytes = 64u << 20;

struct Index {
  std::optional<std::uint64_t> total_parameters;
  std::optional<std::uint64_t> total_size;                      ///< bytes of all tensors
  std::vector<std::pair<std::string, std::string>> weight_map;  ///< tensor -> file, in file order
};

/// The text of model.safetensors.index.json as transformers 5.24 writes it: sorted by name,
/// indent 2, ASCII, a newline at the end. A total that is not set is left out.
std::string index_json(const Index& index);

/// Reads an index. Other members and other metadata are ignored; a total that is no unsigned
/// integer counts as not set (some writers put a float there).
///
/// @error kCorrupt no JSON object with a weight_map of strings; a name that comes twice
/// @error kUnsafe  a file name that is absolute or climbs with ".."
/// @error kLimit   it is longer than kMaxIndexBytes; as json::parse
Result<Index> read_index(std::string_view text);

}  // namespace shardkit::safetensors
