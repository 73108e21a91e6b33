// Verify: whether a model folder is what its manifest says, and what its checkpoint holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit {

struct VerifyReport {
  std::string folder;
  std::uint64_t files = 0;  ///< that were compared
  std::uint64_t bytes = 0;
  /// What differs: file, block and, against a checkpoint, tensor. Empty: nothing does.
  std::vector<std::string> differences;
  std::vector<std::string> unlisted;  ///< files that the manifest does not know
};

/// Reads every file that shardkit_manifest.json lists and compares sizes and block hashes.
///
/// @error kNotFound no manifest in the folder; as parse_manifest; kIo a file cannot be read
/// Memory: one block.
Result<VerifyReport> verify_folder(FileSystem& fs, const std::string& folder);

/// Merges the checkpoint again, with the choices of the manifest, and compares every weight file
/// with what is in the folder instead of writing it.
///
/// @param local_dirs      the checkpoint's folder, or its folders, as for a merge
/// @param base_model_dir  as the merge had it; may be empty
/// @error as verify_folder and FSDPModelMerger::merge_and_save, of the steps up to the transfer
Result<VerifyReport> verify_against_checkpoint(FileSystem& fs, const std::string& folder,
                                               std::span<const std::string> local_dirs,
                                               const TransferOptions& options,
                                               const std::string& base_model_dir = {});

}  // namespace shardkit
