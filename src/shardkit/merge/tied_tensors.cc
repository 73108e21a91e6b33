#include "shardkit/merge/tied_tensors.h"

#include <algorithm>
#include <unordered_map>

#include "shardkit/hf/ties.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/plan/plan.h"
#include "shardkit/transfer/range_reader.h"

namespace shardkit {

std::vector<Tie> find_ties(const MergeSource& source) {
  if (!source.config) return {};
  const Catalog& catalog = *source.catalog;
  std::vector<std::string> names;
  std::unordered_map<std::string, std::size_t> by_name;
  for (const CatalogTensor& tensor : catalog.tensors) {
    by_name[tensor.name] = names.size();
    names.push_back(tensor.name);
  }
  std::vector<Tie> ties;
  for (const hf::TiedPair& pair : hf::tied_pairs(*source.config, names)) {
    Tie tie{by_name.at(pair.canonical), by_name.at(pair.alias), TieState::kUnread};
    const CatalogTensor& a = catalog.tensors[tie.canonical];
    const CatalogTensor& b = catalog.tensors[tie.alias];
    const std::size_t low = std::min(tie.canonical, tie.alias);
    const std::size_t high = std::max(tie.canonical, tie.alias);
    const bool shared = std::any_of(catalog.shared.begin(), catalog.shared.end(),
                                    [low, high](const SharedStorage& same) {
                                      return same.first == low && same.second == high;
                                    });
    if (a.shape != b.shape || a.dtype != b.dtype) tie.state = TieState::kDifferent;
    if (shared) tie.state = TieState::kShared;
    if (a.fold || b.fold) tie.state = TieState::kDifferent;
    ties.push_back(tie);
  }
  return ties;
}

Status settle_ties(FileSystem& fs, const Catalog& catalog, std::vector<Tie>& ties) {
  FileCache files(fs, 16);
  RangeReader reader(files, 4 << 20);
  for (Tie& tie : ties) {
    if (tie.state != TieState::kUnread) continue;
    const CatalogTensor& canonical = catalog.tensors[tie.canonical];
    const CatalogTensor& alias = catalog.tensors[tie.alias];
    SHARDKIT_TRY(prove_whole(canonical));
    SHARDKIT_TRY(prove_whole(alias));
    SHARDKIT_ASSIGN(const auto difference, first_difference(reader, canonical, alias));
    tie.state = difference ? TieState::kDifferent : TieState::kEqual;
  }
  return {};
}

}  // namespace shardkit
