#include "shardkit/merge/compare_with_reference.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "shardkit/compare/catalog_of.h"
#include "shardkit/compare/compare_catalogs.h"

namespace shardkit {
namespace {

std::string describe(const TensorDifference& difference) {
  switch (difference.kind) {
    case DifferenceKind::kOnlyInFirst: return "not in the reference";
    case DifferenceKind::kOnlyInSecond: return "only in the reference";
    case DifferenceKind::kShape:
      return fmt::format("shape {} against {}", difference.first, difference.second);
    case DifferenceKind::kDType:
      return fmt::format("{} against {}", difference.first, difference.second);
    case DifferenceKind::kValues:
      return fmt::format("other bytes at {}", to_string(difference.first_index));
  }
  return "";
}

}  // namespace

Result<std::vector<Difference>> compare_with_reference(FileSystem& fs, const MergeSource& source,
                                                       const OutputDecision& decision,
                                                       const Dict& reference,
                                                       const TransferOptions& options) {
  SHARDKIT_ASSIGN(Catalog catalog, catalog_of(reference));
  const hf::DTypeChoice as_stored{hf::DTypeChoice::Kind::kKeep, {}};
  const hf::ModelConfig* config = source.config ? &*source.config : nullptr;
  SHARDKIT_ASSIGN(
      const Comparison comparison,
      compare_catalogs(fs, {decision.model, decision.choices.dtype, config},
                       {std::make_shared<const Catalog>(std::move(catalog)), as_stored, nullptr},
                       {{}, decision.choices.replicas, options}));
  std::map<std::string, std::string, std::less<>> by_name;
  for (const TensorDifference& difference : comparison.differences) {
    std::string& text = by_name[difference.name];
    // Of a tensor that differs in more than one thing, the dtype is told.
    if (text.empty() || difference.kind == DifferenceKind::kDType) text = describe(difference);
  }
  std::vector<Difference> result;
  const auto take = [&](std::string_view name) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) return;
    result.push_back({StatePath{{found->first}}, std::move(found->second)});
    by_name.erase(found);
  };
  for (const CatalogTensor& tensor : decision.model->tensors) take(tensor.name);
  for (const auto& [key, value] : reference.items)
    if (const auto* name = key.get_if<std::string>()) take(*name);
  return result;
}

}  // namespace shardkit
