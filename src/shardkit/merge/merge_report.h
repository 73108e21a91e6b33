// MergeReport: what a merge did, or would do, for people and for JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/merge/decide_output.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/plan/plan.h"
#include "shardkit/tensor/dtype.h"

namespace shardkit {

struct OutputFile {
  std::string name;  ///< below the target
  std::uint64_t bytes = 0;
};

struct MergeReport {
  std::string checkpoint;            ///< the folder that was found
  std::int64_t world_size = 0;
  std::vector<std::string> meshes;   ///< as to_string(DeviceMeshInfo) tells them
  std::string target;                ///< absolute
  std::vector<OutputFile> weights;   ///< in the order of their names
  std::vector<std::string> sidecars; ///< the other files, index and manifest among them
  std::optional<DType> config_dtype; ///< as written into config.json
  PlanSummary summary;
  std::uint64_t blocks_kept = 0;     ///< taken over from a run that was killed
  std::vector<std::string> dropped_ties;   ///< aliases left out
  std::vector<std::string> skipped;        ///< entries that are no tensors
  std::vector<std::string> notes;          ///< what was decided on the way
  std::vector<std::string> warnings;       ///< what a person should look at
};

/// All of it but `target` and `blocks_kept`, which only writing tells.
MergeReport make_merge_report(const MergeSource& source, const OutputDecision& decision);

}  // namespace shardkit
