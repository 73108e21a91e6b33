// Which entries of the tables a model follows, and which of its tensors each is for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/hf/config.h"
#include "shardkit/hf/weight_conversions.h"

namespace shardkit::hf {

/// The rules of a family, and the part of the model that they are for.
struct SaveScope {
  const SaveFamily* family = nullptr;
  std::string prefix;  ///< of the names that the rules are for; they do not look at it
  std::string_view part =
      {};  ///< the member of config.json that configures it; empty: the top level

  /// The length of the prefix; none: the name is out of scope.
  std::optional<std::size_t> prefix_length(std::string_view name) const;
};

/// The families of a model: of the models inside first, as saving undoes loading.
std::vector<SaveScope> save_scopes(const ModelConfig& config);

}  // namespace shardkit::hf
