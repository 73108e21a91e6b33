// FSDPModelMerger: an FSDP checkpoint to a Hugging Face model folder, step by step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/checkpoint/catalog.h"
#include "shardkit/checkpoint/discover.h"
#include "shardkit/io/file_system.h"
#include "shardkit/io/staged_folder.h"
#include "shardkit/merge/base_comparison.h"
#include "shardkit/merge/decide_output.h"
#include "shardkit/merge/manifest.h"
#include "shardkit/merge/merge_options.h"
#include "shardkit/merge/merge_report.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/state/compare.h"
#include "shardkit/state/value.h"
#include "shardkit/tensor/tensor.h"

namespace shardkit {

/// A merge whose output is being written.
struct StagedMerge {
  StagedFolder stage;
  MergeReport report;
  bool is_written = false;  ///< an earlier run wrote everything: publishing is all that is left
};

/// verl's merger (verl 0.9.1, model_merger/), its steps under their names; docs/from_verl.md puts
/// both side by side, and merge/device_mesh_info.h has the two steps that need no checkpoint.
///
/// Each step does those before it that it needs, once, and keeps what they read; making a merger
/// reads nothing. merge_and_save() is the steps in order. No input is ever touched. For one thread.
class FSDPModelMerger {
 public:
  /// @param fs  outlives this
  FSDPModelMerger(FileSystem& fs, MergeOptions options) : fs_(fs), options_(std::move(options)) {}

  /// How many ranks saved the checkpoint. @error as discover_checkpoint
  Result<std::int64_t> get_world_size();

  /// What rank 0 saved: names and layouts, tensors as ranges of its file. For a look; a merge asks
  /// every rank. @error as get_world_size, read_rank_file
  Result<Value> load_rank_zero_state_dict();

  /// The state dicts of all ranks, joined: every tensor of the checkpoint, and where its pieces
  /// lie. Reads no tensor bytes and takes no memory for them, so that what options.plain leaves to
  /// be guessed is marked and not yet doubted (open_checkpoint()); the steps that read tensors do.
  /// Opens the Hugging Face folder, too.
  /// @error as get_world_size, open_merge_source
  Result<std::shared_ptr<const Catalog>> load_and_merge_state_dicts();

  /// One tensor of the model, whole, contiguous and in memory, in the dtype that the merge gives
  /// it: joined by its placements on any mesh, replicas compared, addends reduced, an adapter
  /// folded in where options say so, whatever a merge refuses refused. A tied alias that a merge
  /// leaves out can be had.
  /// @error kNotFound no such tensor; as load_and_merge_state_dicts, take_lora_apart,
  ///        check_concatenated, merge_to_memory
  Result<Tensor> merge_by_placement(std::string_view name);

  /// Where the merge and a reference differ; nothing: nowhere. See compare_with_reference.
  /// @param reference  safetensors::read_model() of a model folder, or tensors in memory
  /// @error as decide, compare_with_reference
  Result<std::vector<Difference>> validate_state_dict(const Dict& reference);

  /// What merge_and_save() would do: everything up to the proven plan. Reads no tensor bytes and
  /// writes nothing. What only the bytes can tell is assumed and noted: that tied tensors are
  /// equal, and that plain tensors alone are chunks.
  /// @error as merge_and_save(), of the steps that are taken
  Result<MergeReport> plan();

  /// What merge_and_save() writes, decided and proven; reads the bytes of tied tensors and of plain
  /// ones that may be chunks. @error as load_and_merge_state_dicts, decide_output
  Result<OutputDecision> decide();

  /// Merges into a model folder that transformers loads, or leaves nothing behind.
  ///
  /// A run that was killed leaves a stage that the same call takes up; see docs/publish.md.
  /// @error of every step, and as save_hf_model_and_tokenizer(); kIncomplete the base model differs
  ///        and strict_names is set; nothing appears at the target then
  Result<MergeReport> merge_and_save();

  /// The last step of merge_and_save(): streams the weights, copies config and tokenizer, and lets
  /// the folder appear.
  /// @param decision  what decide() returned
  /// @error kInvalidArgument the target holds what is merged, or the decision is of another catalog
  ///        or was made without reading; kIo a full disk, or an input that changed; as StagedFolder
  ///        and transfer
  Result<MergeReport> save_hf_model_and_tokenizer(const OutputDecision& decision);

  /// What merge_and_save() returned when it made the target, if that is still whole; nothing, if
  /// the target is absent, damaged, or of other inputs or choices. For whoever goes on with a
  /// result after a failure. Reads the target's weights, where its manifest is that of this merge.
  /// @error as decide, verify_folder
  Result<std::optional<MergeReport>> find_merged();

  // The parts of save_hf_model_and_tokenizer(), for those who write the weights in another way: in
  // between, the weights are written into the stage.

  /// All that is read, opened. @error as open_merge_source
  Result<const MergeSource*> open_source();

  /// Whether the target may be written: it is free, and holds no input.
  /// @error kInvalidArgument; as open_source, StagedFolder::check
  Status check_target();

  /// Locks the target and makes a stage with room for the weights, or takes one up.
  /// @error as save_hf_model_and_tokenizer, but transfer
  Result<StagedMerge> stage_output(const OutputDecision& decision);

  /// Whether the inputs are as they were when they were opened. @error kIo
  Status check_inputs();

  /// Copies config and tokenizer and writes the manifest: staged.stage.publish() is left to do.
  /// @param weights  those of the plan, in its order; finished
  /// REQUIRES: !staged.is_written
  /// @error as save_hf_model_and_tokenizer, but transfer
  Status write_others(const OutputDecision& decision, StagedMerge& staged,
                      std::vector<ManifestFile> weights);

  /// Removes what a killed merge into the target left: its stage and lock. The target stays, but
  /// for what StagedFolder::discard() says of one that is published file by file.
  /// @error as StagedFolder::discard, also where another process merges into it
  Status cleanup();

 private:
  Result<const CheckpointFolder*> find_checkpoint();
  /// What is told of base_model_dir; nothing without one. @error of strict_names
  Result<std::optional<BaseModelComparison>> check_base_model();

  FileSystem& fs_;
  const MergeOptions options_;
  std::optional<CheckpointFolder> checkpoint_;
  std::optional<MergeSource> source_;
};

}  // namespace shardkit
