// OutputPlan: the weight files that a merge writes, laid out as transformers lays them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hf/dtype_choice.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/merge/saved_catalog.h"
#include "shardkit/plan/plan.h"

namespace shardkit {

struct OutputOptions {
  hf::DTypeChoice dtype;                          ///< not kAuto any more: see hf::resolve
  std::uint64_t max_shard_bytes = 5'000'000'000;  ///< transformers 4's default; 5GB
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
};

/// Where the adapter stands, below the target.
inline constexpr std::string_view kAdapterFileName = "lora_adapter/adapter_model.safetensors";
inline constexpr std::string_view kAdapterConfigName = "lora_adapter/adapter_config.json";

struct OutputPlan {
  Plan plan;
  std::optional<std::string> index;   ///< text of model.safetensors.index.json; none for one file
  std::optional<DType> config_dtype;  ///< the float dtype with most bytes; none: no floats
};

/// Lays out all tensors of the saved catalog but the dropped ones, in its order, then the
/// adapter's, and proves the plan. Its catalog has those of the saved catalog first.
///
/// @param adapter  of kAdapterFileName; empty: no such file
/// @error kInvalidArgument nothing is left to write; as safetensors::lay_out and Plan::make
Result<OutputPlan> plan_output(const MergeSource& source, const SavedCatalog& saved,
                               std::vector<CatalogTensor> adapter, const OutputOptions& options);

}  // namespace shardkit
