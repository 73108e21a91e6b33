// Tensors that a cast leaves as they are stored: by name, and the scales of 8-bit weights.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "shardkit/checkpoint/catalog.h"
#include "shardkit/hf/dtype_choice.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/merge/saved_catalog.h"

namespace shardkit {

/// Where a catalog has 8-bit floats, the patterns of their scales join those that the choice keeps:
/// float8 weights are never cast, and with rounded scales they would be others.
/// @return the 8-bit floats
std::size_t keep_float8_scales(const Catalog& catalog, hf::DTypeChoice& choice);

/// Does so, and tells how many tensors each pattern of the user keeps, patterns that no name fits,
/// a quantization_config that does not go with the weights, and casts that may be of integers'
/// scales.
///
/// @param adapter  what is written of one beside the model
/// @param choice   not kAuto
void decide_kept_dtypes(const MergeSource& source, const SavedCatalog& saved,
                        std::span<const CatalogTensor> adapter, hf::DTypeChoice& choice,
                        std::vector<std::string>& notes, std::vector<std::string>& warnings);

}  // namespace shardkit
