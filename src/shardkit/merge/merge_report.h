// MergeReport: what a merge did, or would do, for people and for JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/merge/base_comparison.h"
#include "shardkit/merge/decide_output.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/plan/plan.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit {

struct OutputFile {
  std::string name;  ///< below the target
  std::uint64_t bytes = 0;
};

/// Values of a tensor that a cast to float16 made infinite.
struct Overflow {
  std::string name;
  std::uint64_t values = 0;
};

struct MergeReport {
  std::string checkpoint;  ///< the folder that was found
  std::int64_t world_size = 0;
  std::vector<std::int64_t> missing_ranks;  ///< whose copies could not be compared
  std::vector<std::string> meshes;          ///< as to_string(DeviceMeshInfo) tells them
  std::string target;                       ///< absolute
  std::vector<OutputFile> weights;          ///< in the order of their names
  std::vector<std::string> sidecars;        ///< the other files, index and manifest among them
  std::optional<DType> config_dtype;        ///< as written into config.json
  std::optional<BaseModelComparison> base_model;  ///< where one was given
  PlanSummary summary;
  std::optional<LoraSummary> lora;        ///< none: no adapter in the checkpoint
  std::uint64_t blocks_kept = 0;          ///< taken over from a run that was killed
  std::vector<Overflow> overflows;        ///< tensors with values too large for float16
  std::vector<std::string> dropped_ties;  ///< aliases left out
  std::vector<std::string> skipped;       ///< entries that are no tensors
  std::vector<std::string> notes;         ///< what was decided on the way
  std::vector<std::string> warnings;      ///< what a person should look at
};

/// Adds the comparison, and what it says to the notes or warnings.
void tell_base_model(BaseModelComparison comparison, MergeReport& report);

/// All of it but `base_model`, `target`, `blocks_kept` and `overflows`, which only the merger and
/// writing tell.
MergeReport make_merge_report(const MergeSource& source, const OutputDecision& decision);

/// Adds what overflowed, and a warning of it. @param values  by index into the catalog's tensors
void report_overflows(const Catalog& catalog, const std::map<std::size_t, std::uint64_t>& values,
                      MergeReport& report);

}  // namespace shardkit
