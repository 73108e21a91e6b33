#include "shardkit/merge/decide_output.h"

#include <fmt/format.h>

#include <utility>

#include "shardkit/hf/heads.h"
#include "shardkit/merge/check_config.h"
#include "shardkit/merge/kept_dtypes.h"
#include "shardkit/merge/plain_tensors.h"
#include "shardkit/merge/saved_catalog.h"
#include "shardkit/merge/tied_tensors.h"

namespace shardkit {
namespace {

/// What is decided before the plan.
struct Decided {
  std::vector<bool> dropped;  // for each tensor of the catalog
  std::vector<std::string> dropped_ties;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
};

void decide_tie(const Catalog& catalog, const Tie& tie, bool keep_tied, Decided& decided) {
  const std::string& canonical = catalog.tensors[tie.canonical].name;
  const std::string& alias = catalog.tensors[tie.alias].name;
  if (tie.state == TieState::kUnread)
    decided.notes.push_back(
        fmt::format("'{}' is taken to equal '{}'; a merge compares them", alias, canonical));
  if (tie.state == TieState::kDifferent) {
    decided.warnings.push_back(fmt::format(
        "config.json ties '{}' to '{}', but they differ: both are kept; a loader that ties them "
        "will lose one",
        alias, canonical));
  } else if (keep_tied) {
    decided.notes.push_back(fmt::format("'{}' equals '{}' and is kept", alias, canonical));
  } else {
    decided.dropped[tie.alias] = true;
    decided.dropped_ties.push_back(alias);
  }
}

void append(const std::vector<std::string>& texts, std::vector<std::string>& to) {
  to.insert(to.end(), texts.begin(), texts.end());
}

/// Critics and reward models keep their heads; whether a loader will is another thing.
void check_head(const MergeSource& source, const SavedCatalog& saved,
                std::vector<std::string>& warnings) {
  if (!source.config) return;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < saved.dropped.size(); ++i)
    if (!saved.dropped[i]) names.push_back(saved.catalog->tensors[i].name);
  if (auto warning = hf::head_warning(*source.config, names))
    warnings.push_back(*std::move(warning));
}

std::size_t count_guessed(const Catalog& catalog) {
  std::size_t count = 0;
  for (const CatalogTensor& tensor : catalog.tensors) count += tensor.guessed;
  return count;
}

}  // namespace

Result<OutputDecision> decide_output(FileSystem& fs, const MergeSource& source,
                                     OutputChoices choices, TensorBytes bytes) {
  const Catalog& catalog = *source.catalog;
  SHARDKIT_ASSIGN(choices.dtype,
                  hf::resolve(choices.dtype, source.config ? &*source.config : nullptr));
  SHARDKIT_ASSIGN(LoraCatalog lora, take_lora_apart(fs, source, choices.lora));
  Decided decided;
  decided.notes = std::move(lora.notes);
  decided.warnings = std::move(lora.warnings);
  if (bytes == TensorBytes::kRead) {
    SHARDKIT_TRY(check_concatenated(fs, source, catalog.tensors));
  } else if (const std::size_t guessed = count_guessed(catalog); guessed > 0) {
    decided.notes.push_back(
        fmt::format("{} plain tensors are taken for chunks; a merge refuses ranks that are all "
                    "equal",
                    guessed));
  }
  MergeSource model = source;
  model.catalog = lora.model;
  SHARDKIT_TRY(check_names(model.catalog->tensors));
  if (source.config && !model.catalog->tensors.empty()) {
    SHARDKIT_ASSIGN(const ConfigFindings findings,
                    check_config(*source.config, model.catalog->tensors));
    append(findings.notes, decided.notes);
    append(findings.warnings, decided.warnings);
  }
  decided.dropped.assign(model.catalog->tensors.size(), false);
  std::vector<Tie> ties = find_ties(model);
  if (bytes == TensorBytes::kRead) SHARDKIT_TRY(settle_ties(fs, *model.catalog, ties));
  const bool keep_tied =
      choices.keep_tied || (source.config && !hf::ties_on_loading(*source.config));
  for (const Tie& tie : ties) decide_tie(*model.catalog, tie, keep_tied, decided);
  SHARDKIT_ASSIGN(const SavedCatalog saved, saved_catalog(model, std::move(decided.dropped)));
  append(saved.notes, decided.notes);
  append(saved.warnings, decided.warnings);
  decide_kept_dtypes(source, saved, lora.adapter, choices.dtype, decided.notes, decided.warnings);
  check_head(source, saved, decided.warnings);
  SHARDKIT_ASSIGN(OutputPlan output,
                  plan_output(source, saved, std::move(lora.adapter),
                              {choices.dtype, choices.max_shard_bytes, choices.replicas}));
  return OutputDecision{std::move(output),
                        source.catalog,
                        saved.catalog,
                        std::move(lora.adapter_config),
                        std::move(lora.summary),
                        std::move(choices),
                        bytes,
                        std::move(decided.dropped_ties),
                        std::move(decided.notes),
                        std::move(decided.warnings)};
}

}  // namespace shardkit
