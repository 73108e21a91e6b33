// Tied embeddings: which alias a merge leaves out, because it is equal to what it is tied to.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/merge_source.h"

namespace shardkit {

enum class TieState {
  kShared,     ///< both names look at the same bytes on every rank
  kEqual,      ///< other bytes, equal
  kDifferent,  ///< the config ties them, but they are not equal, or one gets an adapter folded in
  kUnread,     ///< would have to be read to tell
};

struct Tie {
  std::size_t canonical = 0;  ///< index into Catalog::tensors
  std::size_t alias = 0;
  TieState state = TieState::kUnread;
};

/// The pairs that the config ties, where both are there. Reads no tensor bytes: a pair is kShared,
/// kDifferent (other shape or dtype) or kUnread. None without a config.
std::vector<Tie> find_ties(const MergeSource& source);

/// Reads the kUnread pairs and settles them; up to the first difference of each.
/// @error as RangeReader::read
Status settle_ties(FileSystem& fs, const Catalog& catalog, std::vector<Tie>& ties);

}  // namespace shardkit
