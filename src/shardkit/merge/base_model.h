// The base model of an adapter, where the checkpoint holds the adapter alone.
#pragma once

#include <string>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// Whether a catalog has LoRA tensors and no weights of a model.
bool holds_adapter_alone(const Catalog& catalog);

/// Appends the weights of a model folder (read_weights) and the files that they lie in.
/// @error kCorrupt a name is there already; as read_weights and catalog_of
Status add_base_model(FileSystem& fs, const std::string& folder, Catalog& catalog);

}  // namespace shardkit
