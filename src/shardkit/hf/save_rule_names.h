// Finds the names of a save rule in those of tensors.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "shardkit/hf/weight_conversions.h"

namespace shardkit::hf {

/// A name around what a rule found in it.
struct FoundName {
  std::string_view before;
  std::string_view behind;
  std::string_view text;  ///< what was found
  std::string_view wild;  ///< of that, what '#' or '*' stands for

  /// The name with other text in the place of what was found.
  std::string with(std::string_view middle) const;
};

/// The first place of a rule's `held` name in a tensor's name, as SaveRule says.
/// @param from  where the name is taken to start
std::optional<FoundName> find_in_name(std::string_view held, std::string_view name,
                                      std::size_t from);

/// The name that a rename makes; as it is where it has the saved name already, inside which the
/// held one stands: "language_model.model.norm" of "language_model".
std::string renamed(const SaveRule& rule, std::string name, std::size_t from);

}  // namespace shardkit::hf
