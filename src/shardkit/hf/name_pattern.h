// Patterns of tensor names, as a command line takes them.
#pragma once

#include <string_view>

namespace shardkit::hf {

/// Whether the whole name fits: '*' stands for any characters, dots included, also for none; '?'
/// for one; all others for themselves. Time: the product of the lengths at most.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace shardkit::hf
