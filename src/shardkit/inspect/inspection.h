// Inspection: what a path holds, told without reading tensor bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardkit/base/dims.h"
#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/lora_summary.h"

namespace shardkit {

enum class InspectedKind {
  kCheckpoint,  ///< a folder of rank files
  kTorchFile,   ///< one .pt: model, optim or extra_state of a rank, or any other
  kSafetensorsFile,
  kModelFolder,  ///< a Hugging Face folder
};

/// "FSDP checkpoint", "PyTorch file", ...
std::string_view to_string(InspectedKind kind);

/// One tensor.
struct TensorRow {
  std::string name;          ///< keys and list indices joined by '.', in a nested file
  std::string kind;          ///< "DTensor", "ShardedTensor", "Tensor"
  std::string dtype;         ///< PyTorch's name
  Dims shape;                ///< of the whole tensor
  std::string layout;        ///< mesh and placements, or the local shape of one rank's file
  std::uint64_t pieces = 0;  ///< boxes in which it lies on the ranks, replicas included
  std::uint64_t bytes = 0;   ///< of the whole tensor, dense
};

struct CountAndBytes {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

/// What `shardkit merge` with its default options would do.
struct MergeForecast {
  std::uint64_t weight_bytes = 0;
  std::uint64_t weight_files = 0;
  std::uint64_t sidecar_files = 0;
  std::uint64_t memory_bytes = 0;  ///< of buffers, at most
  std::string dtype;               ///< that floats are cast to
};

struct Inspection {
  std::string path;  ///< the folder or file that was found
  InspectedKind kind = InspectedKind::kCheckpoint;
  std::optional<std::int64_t> fsdp_version;
  std::optional<std::int64_t> world_size;
  std::vector<std::string> meshes;
  std::map<std::string, CountAndBytes> by_kind;
  std::map<std::string, CountAndBytes> by_dtype;
  std::vector<std::string> ties;  ///< "a = b": two names for the same bytes
  std::vector<TensorRow> tensors;
  std::vector<std::string> skipped;  ///< entries that are no tensors
  std::vector<std::string> notes;    ///< of a checkpoint: what a merge warns of, then what it tells
  std::vector<std::string> problems;  ///< why a merge would be refused, or a file is not whole
  std::optional<LoraSummary> lora;    ///< of a checkpoint with an adapter
  std::optional<MergeForecast> forecast;
};

/// Looks at anything that shardkit can open: a run's root, step, role or shard folder, one .pt, a
/// .safetensors file, a Hugging Face folder.
///
/// A folder that is recognised but broken (ranks missing, a truncated file) is an Inspection with
/// `problems`, not an error.
///
/// @error kNotFound nothing there that shardkit knows; kInvalidArgument a device, a pipe and the
///        like; as the readers for a single file
Result<Inspection> inspect(FileSystem& fs, const std::string& path);

/// The same of a checkpoint whose files lie in several folders, as discover_checkpoint() joins
/// them.
/// @param paths  at least one
Result<Inspection> inspect(FileSystem& fs, std::span<const std::string> paths);

}  // namespace shardkit
