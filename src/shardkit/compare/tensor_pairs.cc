#include "shardkit/compare/tensor_pairs.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "shardkit/hf/ties.h"

namespace shardkit {
namespace {

using Places = std::unordered_map<std::string, std::size_t>;  // name -> index into pairs

void add_names(const Catalog& catalog, std::optional<std::size_t> TensorPair::*side, Places& places,
               std::vector<TensorPair>& pairs) {
  for (std::size_t i = 0; i < catalog.tensors.size(); ++i) {
    const std::string& name = catalog.tensors[i].name;
    const auto [place, is_new] = places.try_emplace(name, pairs.size());
    if (is_new) pairs.push_back({name, {}, {}});
    pairs[place->second].*side = i;
  }
}

/// Lets a tied tensor stand in for one that a side lacks.
void stand_in(std::optional<std::size_t> TensorPair::*side, TensorPair& missing,
              const TensorPair& tied, std::vector<std::string>& notes) {
  if (missing.*side || !(tied.*side)) return;
  missing.*side = tied.*side;
  notes.push_back(fmt::format("'{}' is compared with '{}', to which the config ties it",
                              missing.name, tied.name));
}

}  // namespace

TensorPairs pair_tensors(const Catalog& first, const Catalog& second,
                         const hf::ModelConfig* first_config,
                         const hf::ModelConfig* second_config) {
  TensorPairs result;
  Places places;
  add_names(first, &TensorPair::first, places, result.pairs);
  add_names(second, &TensorPair::second, places, result.pairs);
  std::vector<std::string> names;
  for (const TensorPair& pair : result.pairs) names.push_back(pair.name);
  // What both sides had of their own, so that no stand-in stands in for another.
  const std::vector<TensorPair> own = result.pairs;
  for (const hf::ModelConfig* config : {first_config, second_config}) {
    if (config == nullptr) continue;
    for (const hf::TiedPair& tie : hf::tied_pairs(*config, names)) {
      const std::size_t canonical = places.at(tie.canonical);
      const std::size_t alias = places.at(tie.alias);
      for (const auto& [missing, tied] :
           {std::pair(alias, canonical), std::pair(canonical, alias)}) {
        stand_in(&TensorPair::first, result.pairs[missing], own[tied], result.notes);
        stand_in(&TensorPair::second, result.pairs[missing], own[tied], result.notes);
      }
    }
  }
  return result;
}

}  // namespace shardkit
