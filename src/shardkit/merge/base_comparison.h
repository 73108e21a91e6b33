// The names and shapes of a merge held against those of the base model it was trained from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

struct BaseModelComparison {
  std::string folder;
  std::uint64_t tensors = 0;  ///< of the base model
  std::uint64_t same = 0;     ///< of these: in the checkpoint, with the same shape
  std::uint64_t experts = 0;  ///< of the base model's tensors: those of experts
  std::uint64_t experts_same = 0;
  std::vector<std::string> missing;       ///< names that only the base model has
  std::vector<std::string> extra;         ///< names that only the checkpoint has
  std::vector<std::string> other_shape;   ///< "'name': [8, 4] against [10, 4]", the base model last
  std::vector<std::string> other_config;  ///< what both config.json say of the vocabulary

  bool agrees() const;
};

/// Compares every tensor of a model, as a merge names and cuts it (merge/saved_catalog.h), with the
/// base model's headers; a tensor that either side leaves out because it is tied is not missing.
/// Reads no tensor bytes.
///
/// @param source  of a checkpoint with an adapter: with the model that take_lora_apart() makes of
/// it
/// @param folder  a model folder or file: see read_weights
/// @error as read_weights, catalog_of and saved_catalog
Result<BaseModelComparison> compare_with_base_model(FileSystem& fs, const MergeSource& source,
                                                    const std::string& folder);

/// In a sentence, with the first names of each kind.
std::string describe(const BaseModelComparison& comparison);

}  // namespace shardkit
