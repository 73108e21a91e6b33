// Manifest: shardkit_manifest.json, what a merge made of what, and the hashes that prove it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/merge/decide_output.h"

namespace shardkit {

inline constexpr std::string_view kManifestName = "shardkit_manifest.json";

/// A manifest is at most this long.
inline constexpr std::uint64_t kManifestLimit = std::uint64_t{1} << 30;

/// A file of the output.
struct ManifestFile {
  std::string name;  ///< below the folder
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> hashes;  ///< block_hash() of each kBlockBytes from the start
};

/// What a reader needs of a manifest.
struct Manifest {
  std::string version;  ///< of the shardkit that wrote it
  OutputChoices choices;
  std::vector<ManifestFile> files;
};

/// The text of a manifest. Names its source files without their folders: a model is published, the
/// paths of the cluster it was trained on are nobody's business.
///
/// Members: shardkit_version; options; checkpoint (world_size, files: name, bytes, modified_ns,
/// directory_crc); block_bytes; files (name, bytes, xxh3_64: one hash a block); tensors (name,
/// file, dtype, stored_dtype, shape, layout, and made_of where it is made of other names);
/// dropped_ties; lora, of a checkpoint with an adapter (merge/lora_summary.h); rows_and_folds,
/// where there are any: a hash of the order of rows and of how adapters are folded in.
std::string manifest_text(const MergeSource& source, const OutputDecision& decision,
                          const std::vector<ManifestFile>& files);

/// @error kCorrupt no manifest; kUnsupported of another block size
Result<Manifest> parse_manifest(std::string_view text);

/// One line that names a merge: its inputs as they are, its choices, the bytes of its plan. Two
/// merges of one identity write the same files.
std::string merge_identity(const MergeSource& source, const OutputDecision& decision);

}  // namespace shardkit
