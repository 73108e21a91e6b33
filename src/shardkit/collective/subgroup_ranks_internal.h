// What an error of a subgroup says about its ranks, which count for themselves.
#pragma once

#include <vector>

#include "shardkit/base/error.h"

namespace shardkit {

/// The error with the ranks of the group that was not split from another, by rank of the subgroup;
/// unchanged where they are the same.
Error with_outermost_ranks(Error error, const std::vector<int>& outermost);

}  // namespace shardkit
