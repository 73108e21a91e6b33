// Patterns by which PEFT's rank_pattern and alpha_pattern name modules.
#pragma once

#include <string_view>

#include "shardkit/base/result.h"

namespace shardkit::hf {

/// Whether a key of such a pattern names a module: Python's re.match("(.*\.)?(KEY)$", module) (peft
/// 0.21, utils/other.py, get_pattern_key). So "q_proj" names every q_proj, and a full name one.
///
/// Of regular expressions it knows '.', '\d', '\w', other escaped punctuation, '*', '+' and '?'
/// after these or a letter, and '^' in front.
/// @param module  without "base_model.model."
/// @error kUnsupported  a key with other operators, or above 4096 bytes
/// Cost: the product of both lengths; of a key without operators but '.', its length.
Result<bool> names_module(std::string_view key, std::string_view module);

}  // namespace shardkit::hf
