// Ranks of subgroups in errors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "shardkit/collective/subgroup_ranks_internal.h"

namespace shardkit {

Error with_outermost_ranks(Error error, const std::vector<int>& outermost) {
  for (std::size_t i = 0; i < outermost.size(); ++i)
    if (outermost[i] != static_cast<int>(i))
      return Error(error.code(),
                   fmt::format("{} (ranks of a subgroup; in the outermost group: [{}])",
                               error.what(), fmt::join(outermost, ", ")));
  return error;
}

}  // namespace shardkit
