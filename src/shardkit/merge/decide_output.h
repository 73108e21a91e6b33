// What a merge writes: ties settled, plain tensors judged, dtypes chosen, files planned.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog_builder.h"
#include "shardkit/hf/dtype_choice.h"
#include "shardkit/io/file_system.h"
#include "shardkit/merge/lora_adapter.h"
#include "shardkit/merge/lora_catalog.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/merge/output_plan.h"
#include "shardkit/plan/plan.h"

namespace shardkit {

/// The choices that decide the bytes of the output, and nothing else.
struct OutputChoices {
  hf::DTypeChoice dtype;  ///< bfloat16 by default, as verl
  std::uint64_t max_shard_bytes = 5'000'000'000;
  ReplicaPolicy replicas = ReplicaPolicy::kCompare;
  PlainTensors plain = PlainTensors::kAuto;
  bool keep_tied = false;  ///< write a tied alias though it equals its canonical tensor
  LoraChoice lora;
};

/// Whether a decision may look at tensor bytes.
enum class TensorBytes {
  kRead,
  kUnread,  ///< what only the bytes can tell is assumed: tied tensors are equal, plain ones chunks
};

struct OutputDecision {
  OutputPlan output;                     ///< its catalog holds model and adapter
  std::shared_ptr<const Catalog> held;   ///< the checkpoint's catalog that was decided about
  std::shared_ptr<const Catalog> model;  ///< the model's tensors as they are saved
  std::string adapter_config;            ///< text of kAdapterConfigName; empty: no such file
  std::optional<LoraSummary> lora;       ///< none: no adapter in the checkpoint
  OutputChoices choices;                 ///< with the dtype resolved: never kAuto
  TensorBytes bytes = TensorBytes::kRead;
  std::vector<std::string> dropped_ties;  ///< aliases left out
  std::vector<std::string> notes;
  std::vector<std::string> warnings;

  /// Whether a model is written, with config and tokenizer, and not an adapter alone.
  bool has_model() const { return !model->tensors.empty(); }
};

/// Decides and proves it.
/// @error as take_lora_apart, check_concatenated, check_names, check_config, settle_ties,
/// hf::resolve,
///        saved_catalog and plan_output
Result<OutputDecision> decide_output(FileSystem& fs, const MergeSource& source,
                                     OutputChoices choices, TensorBytes bytes);

}  // namespace shardkit
