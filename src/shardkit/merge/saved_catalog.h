// The catalog of what a model folder holds: transformers saves some tensors in another form.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

struct SavedCatalog {
  std::shared_ptr<const Catalog> catalog;  ///< the checkpoint's own where nothing changes
  std::vector<bool> dropped;               ///< for each of its tensors
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
};

/// The tensors of a checkpoint as save_pretrained names, orders and cuts them: experts one by one,
/// old names of models of text and images (hf/saved_form.h).
///
/// A tensor that is a box of another one has the pieces that meet the box, with the same storages,
/// strides, replicas and addends; so a plan proves and a transfer reads it as any other. No tensor
/// bytes are read. Where anything changes, metadata takes up to twice its room.
///
/// @param dropped  for each tensor of the source's catalog, whether it is left out
/// @error as hf::saved_form, prove_whole
/// @error kUnsupported  tensors that are to be joined have not the same replicas and addends
Result<SavedCatalog> saved_catalog(const MergeSource& source, std::vector<bool> dropped);

}  // namespace shardkit
