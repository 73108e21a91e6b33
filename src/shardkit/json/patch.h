// json::replace_member: changes one value in JSON text and leaves every other byte as it was.
#pragma once

#include <string>
#include <string_view>

#include "shardkit/base/result.h"

namespace shardkit::json {

/// The text with the value of one top-level member replaced.
///
/// @param text           one JSON object, as parse() takes it with python_numbers
/// @param top_level_key  the member's name, without quotes or escapes
/// @param new_json       JSON text of the new value
///
/// @error kNotFound        no such member at the top level
/// @error kInvalidArgument `new_json` is no JSON value
/// @error kCorrupt, kLimit `text` is no JSON object, as parse()
Result<std::string> replace_member(std::string_view text, std::string_view top_level_key,
                                   std::string_view new_json);

}  // namespace shardkit::json
