// Which tensors of two catalogs are compared with each other: by name, and through ties.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/checkpoint/catalog.h"
#include "shardkit/hf/config.h"

namespace shardkit {

/// A name, and the tensor that each side has for it (an index into Catalog::tensors).
struct TensorPair {
  std::string name;
  std::optional<std::size_t> first;
  std::optional<std::size_t> second;
};

struct TensorPairs {
  std::vector<TensorPair> pairs;   ///< in the order of the first catalog, then of the second
  std::vector<std::string> notes;  ///< which tensor stands in for which
};

/// Every name of either catalog once. A name that one side lacks gets the tensor that a config ties
/// it to, if that side has it.
/// @param configs  those of both sides; null ones say nothing
TensorPairs pair_tensors(const Catalog& first, const Catalog& second,
                         const hf::ModelConfig* first_config, const hf::ModelConfig* second_config);

}  // namespace shardkit
