#include "shardkit/merge/fsdp_merger.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardkit/checkpoint/open.h"
#include "shardkit/hf/config.h"
#include "shardkit/hf/dtype_choice.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/block_journal.h"
#include "shardkit/merge/compare_with_reference.h"
#include "shardkit/merge/file_sink.h"
#include "shardkit/merge/kept_dtypes.h"
#include "shardkit/merge/manifest.h"
#include "shardkit/merge/merge_to_memory.h"
#include "shardkit/merge/plain_tensors.h"
#include "shardkit/merge/small_file_writer.h"
#include "shardkit/merge/verify.h"
#include "shardkit/safetensors/sharded_index.h"

namespace shardkit {
namespace {

/// A target that replaces what the merge reads would destroy a checkpoint worth a week of GPUs.
Status check_target_is_no_input(const MergeOptions& options, const MergeSource& source) {
  if (options.target_dir.empty())
    return Error(ErrorCode::kInvalidArgument, "no target folder is given");
  const std::string target = resolved_path(options.target_dir);
  std::vector<std::string> inputs = source.checkpoint.more_folders;
  inputs.push_back(source.checkpoint.path);
  if (source.hf_folder) inputs.push_back(*source.hf_folder);
  if (source.base_folder) inputs.push_back(*source.base_folder);
  for (const std::string& input : inputs)
    if (is_within(resolved_path(input), target))
      return Error(ErrorCode::kInvalidArgument, "the target holds the checkpoint to be merged")
          .in_file(target)
          .found(input);
  return {};
}

/// What the stage holds already needs no more room.
Status check_free_space(FileSystem& fs, const StagedFolder& stage, const MergeSource& source,
                        const Plan& plan) {
  std::uint64_t needed = 0;
  for (const PlannedFile& file : plan.files()) {
    const auto staged = fs.info(stage.content_path(file.name));
    needed += file.bytes - std::min(file.bytes, staged.ok() ? staged->bytes : 0);
  }
  for (const hf::SidecarFile& file : source.sidecars) needed += file.bytes;
  SHARDKIT_ASSIGN(const std::uint64_t free, fs.free_bytes(stage.control_path("")));
  if (needed <= free) return {};
  return Error(ErrorCode::kIo, "not enough space for the model")
      .in_file(stage.target())
      .expected(fmt::format("{} bytes", needed))
      .found(fmt::format("{} bytes free", free));
}

Status check_unchanged(FileSystem& fs, const std::string& path, std::uint64_t bytes,
                       std::int64_t modified_ns) {
  SHARDKIT_ASSIGN(const FileInfo now, fs.info(path));
  if (now.bytes == bytes && now.modified_ns == modified_ns) return {};
  return Error(ErrorCode::kIo, "the file changed while it was merged")
      .in_file(path)
      .expected(fmt::format("{} bytes, as when it was opened", bytes))
      .found(fmt::format("{} bytes", now.bytes));
}

/// Tensors are read long after their file was opened first: it must still be the same.
Status check_inputs_unchanged(FileSystem& fs, const MergeSource& source) {
  for (const SourceFile& file : source.catalog->files)
    SHARDKIT_TRY(check_unchanged(fs, file.path, file.bytes, file.modified_ns));
  for (const hf::SidecarFile& file : source.sidecars)
    SHARDKIT_TRY(
        check_unchanged(fs, join_path(*source.hf_folder, file.path), file.bytes, file.modified_ns));
  return {};
}

StageOptions stage_options(const MergeOptions& options, const MergeSource& source,
                           const OutputDecision& decision) {
  StageOptions stage;
  stage.existing = options.existing;
  stage.durability = options.durability;
  stage.identity = merge_identity(source, decision);
  stage.key_file = decision.output.index ? std::string(safetensors::kIndexFileName)
                                         : decision.output.plan.files().front().name;
  stage.old_key_files = {std::string(safetensors::kIndexFileName),
                         safetensors::weight_file_name(0, 1)};
  return stage;
}

/// Streams the weights into the stage; what a killed run proved is kept.
Result<std::vector<ManifestFile>> write_weights(FileSystem& fs, const MergeOptions& options,
                                                const Plan& plan, const StagedFolder& stage,
                                                MergeReport& report) {
  SHARDKIT_ASSIGN(BlockJournal journal,
                  BlockJournal::open(fs, stage.control_path(kBlockJournalName)));
  FileSink sink(fs, stage.content_path(""), stage.durability(), journal, plan);
  SHARDKIT_TRY(transfer(plan, fs, sink, options.transfer));
  SHARDKIT_TRY(journal.close());
  report.blocks_kept = sink.blocks_kept();
  report_overflows(plan.catalog(), sink.overflows(), report);
  std::vector<ManifestFile> files;
  for (std::size_t f = 0; f < plan.files().size(); ++f)
    files.push_back({plan.files()[f].name, plan.files()[f].bytes, sink.hashes()[f]});
  return files;
}

/// config.json gets the dtype of the weights; others are copied as they are.
Status write_sidecars(const MergeSource& source, const OutputDecision& decision,
                      SmallFileWriter& writer) {
  for (const hf::SidecarFile& file : source.sidecars) {
    if (file.path == "config.json" && source.config && decision.output.config_dtype) {
      SHARDKIT_ASSIGN(const std::string text,
                      hf::with_dtype(*source.config, *decision.output.config_dtype));
      SHARDKIT_TRY(writer.write(file.path, text));
    } else {
      SHARDKIT_TRY(writer.copy(join_path(*source.hf_folder, file.path), file.path));
    }
  }
  return {};
}

/// Writes everything but the weights.
Status write_others(FileSystem& fs, const MergeSource& source, const OutputDecision& decision,
                    StagedFolder& stage, std::vector<ManifestFile> files) {
  SmallFileWriter writer(fs, stage, files);
  if (!decision.adapter_config.empty())
    SHARDKIT_TRY(writer.write(kAdapterConfigName, decision.adapter_config));
  if (decision.has_model()) SHARDKIT_TRY(write_sidecars(source, decision, writer));
  if (decision.output.index)
    SHARDKIT_TRY(writer.write(safetensors::kIndexFileName, *decision.output.index));
  return writer.write(kManifestName, manifest_text(source, decision, files));
}

void note_stage(const StagedFolder& stage, MergeReport& report) {
  if (!stage.is_locked())
    report.warnings.emplace_back(
        "the target's file system has no locks: nothing keeps another merge from writing there");
  switch (stage.found()) {
    case StagedFolder::Found::kNothing: break;
    case StagedFolder::Found::kDiscarded:
      report.notes.emplace_back("an unfinished stage that was not this command's was discarded");
      break;
    case StagedFolder::Found::kContent:
      report.notes.emplace_back("took up the stage of an earlier run that did not end");
      break;
    case StagedFolder::Found::kPublishing:
    case StagedFolder::Found::kPublished:
      report.notes.emplace_back("an earlier run had written everything; its publication was ended");
      break;
  }
}

}  // namespace

Result<const CheckpointFolder*> FSDPModelMerger::find_checkpoint() {
  if (!checkpoint_) {
    std::vector<std::string> folders = {options_.local_dir};
    folders.insert(folders.end(), options_.more_local_dirs.begin(), options_.more_local_dirs.end());
    SHARDKIT_ASSIGN(checkpoint_, discover_checkpoint(fs_, folders, MissingRanks::kAllowed));
  }
  return &*checkpoint_;
}

Result<const MergeSource*> FSDPModelMerger::open_source() {
  if (!source_) {
    SHARDKIT_ASSIGN(const CheckpointFolder* checkpoint, find_checkpoint());
    SHARDKIT_ASSIGN(source_, open_merge_source(fs_, *checkpoint, options_.hf_folder, options_.plain,
                                               options_.base_model_dir));
  }
  return &*source_;
}

Result<std::int64_t> FSDPModelMerger::get_world_size() {
  SHARDKIT_ASSIGN(const CheckpointFolder* checkpoint, find_checkpoint());
  return checkpoint->world_size;
}

Result<Value> FSDPModelMerger::load_rank_zero_state_dict() {
  SHARDKIT_ASSIGN(const CheckpointFolder* checkpoint, find_checkpoint());
  SHARDKIT_ASSIGN(RankFile file, read_rank_file(fs_, *checkpoint, 0));
  return std::move(file.content.root);
}

Result<std::shared_ptr<const Catalog>> FSDPModelMerger::load_and_merge_state_dicts() {
  SHARDKIT_ASSIGN(const MergeSource* source, open_source());
  return source->catalog;
}

Result<Tensor> FSDPModelMerger::merge_by_placement(std::string_view name) {
  SHARDKIT_ASSIGN(const MergeSource* source, open_source());
  SHARDKIT_ASSIGN(const LoraCatalog lora, take_lora_apart(fs_, *source, options_.lora));
  const std::vector<CatalogTensor>& tensors = lora.model->tensors;
  const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                   [name](const CatalogTensor& t) { return t.name == name; });
  if (tensor == tensors.end())
    return Error(ErrorCode::kNotFound, "the checkpoint holds no such tensor")
        .in_file(source->checkpoint.path)
        .of_tensor(name);
  SHARDKIT_TRY(check_concatenated(fs_, *source, {&*tensor, 1}));
  if (const Fold* fold = tensor->fold.get())
    for (const CatalogTensor* part : {fold->a.get(), fold->b.get(), fold->magnitude.get()})
      if (part != nullptr) SHARDKIT_TRY(check_concatenated(fs_, *source, {part, 1}));
  SHARDKIT_ASSIGN(hf::DTypeChoice dtype,
                  hf::resolve(options_.dtype, source->config ? &*source->config : nullptr));
  keep_float8_scales(*lora.model, dtype);
  return merge_to_memory(fs_, lora.model, static_cast<std::size_t>(tensor - tensors.begin()),
                         hf::output_dtype(dtype, tensor->name, tensor->dtype), options_.replicas,
                         options_.transfer);
}

Result<std::vector<Difference>> FSDPModelMerger::validate_state_dict(const Dict& reference) {
  SHARDKIT_ASSIGN(const OutputDecision decision, decide());
  return compare_with_reference(fs_, *source_, decision, reference, options_.transfer);
}

Result<OutputDecision> FSDPModelMerger::decide() {
  SHARDKIT_ASSIGN(const MergeSource* source, open_source());
  return decide_output(fs_, *source, options_, TensorBytes::kRead);
}

Status FSDPModelMerger::check_target() {
  SHARDKIT_ASSIGN(const MergeSource* source, open_source());
  SHARDKIT_TRY(check_target_is_no_input(options_, *source));
  return StagedFolder::check(fs_, options_.target_dir, options_.existing);
}

Result<std::optional<BaseModelComparison>> FSDPModelMerger::check_base_model() {
  if (options_.base_model_dir.empty()) return std::optional<BaseModelComparison>();
  SHARDKIT_ASSIGN(const MergeSource* source, open_source());
  LoraChoice choice = options_.lora;
  choice.mode = LoraMode::kAdapter;  // which has the base model's weights and their clean names
  SHARDKIT_ASSIGN(const LoraCatalog lora, take_lora_apart(fs_, *source, choice));
  if (source->base_folder) {  // its weights are its own
    if (options_.strict_names && !lora.not_in_base.empty())
      return Error(ErrorCode::kIncomplete, "the base model lacks modules of the adapter")
          .in_file(*source->base_folder)
          .of_tensor(lora.not_in_base.front());
    return std::optional<BaseModelComparison>();
  }
  MergeSource model = *source;
  model.catalog = lora.model;
  SHARDKIT_ASSIGN(BaseModelComparison comparison,
                  compare_with_base_model(fs_, model, options_.base_model_dir));
  if (options_.strict_names && !comparison.agrees())
    return Error(
               ErrorCode::kIncomplete,
               "the checkpoint's tensors are not those of the base model: " + describe(comparison))
        .in_file(source->checkpoint.path);
  return std::optional(std::move(comparison));
}

Result<MergeReport> FSDPModelMerger::plan() {
  SHARDKIT_TRY(check_target());
  SHARDKIT_ASSIGN(auto base_model, check_base_model());
  SHARDKIT_ASSIGN(const OutputDecision decision,
                  decide_output(fs_, *source_, options_, TensorBytes::kUnread));
  MergeReport report = make_merge_report(*source_, decision);
  report.target = resolved_path(options_.target_dir);
  if (base_model) tell_base_model(*std::move(base_model), report);
  return report;
}

Result<MergeReport> FSDPModelMerger::merge_and_save() {
  SHARDKIT_TRY(check_target());  // before tensor bytes are read to decide
  SHARDKIT_TRY(check_base_model());
  SHARDKIT_ASSIGN(const OutputDecision decision, decide());
  return save_hf_model_and_tokenizer(decision);
}

Result<MergeReport> FSDPModelMerger::save_hf_model_and_tokenizer(const OutputDecision& decision) {
  SHARDKIT_ASSIGN(StagedMerge staged, stage_output(decision));
  if (!staged.is_written) {
    SHARDKIT_ASSIGN(
        std::vector<ManifestFile> files,
        write_weights(fs_, options_, decision.output.plan, staged.stage, staged.report));
    SHARDKIT_TRY(write_others(decision, staged, std::move(files)));
    SHARDKIT_TRY(check_inputs());
  }
  SHARDKIT_TRY(staged.stage.publish());
  return std::move(staged.report);
}

Result<StagedMerge> FSDPModelMerger::stage_output(const OutputDecision& decision) {
  SHARDKIT_ASSIGN(const MergeSource* opened, open_source());
  const MergeSource& source = *opened;
  if (decision.bytes != TensorBytes::kRead || decision.held != source.catalog)
    return Error(ErrorCode::kInvalidArgument, "the decision is not of decide() of this merger");
  SHARDKIT_TRY(check_target_is_no_input(options_, source));
  SHARDKIT_ASSIGN(auto base_model, check_base_model());
  SHARDKIT_ASSIGN(
      StagedFolder stage,
      StagedFolder::create(fs_, options_.target_dir, stage_options(options_, source, decision)));
  MergeReport report = make_merge_report(source, decision);
  report.target = stage.target();
  if (base_model) tell_base_model(*std::move(base_model), report);
  note_stage(stage, report);
  const bool is_written = stage.found() == StagedFolder::Found::kPublishing ||
                          stage.found() == StagedFolder::Found::kPublished;
  if (!is_written) {
    const Plan& plan = decision.output.plan;
    SHARDKIT_TRY(check_free_space(fs_, stage, source, plan));
    std::vector<std::string> names;
    for (const PlannedFile& file : plan.files()) names.push_back(file.name);
    SHARDKIT_TRY(stage.keep_only(names));
  }
  return StagedMerge{std::move(stage), std::move(report), is_written};
}

Status FSDPModelMerger::write_others(const OutputDecision& decision, StagedMerge& staged,
                                     std::vector<ManifestFile> weights) {
  SHARDKIT_ASSIGN(const MergeSource* source, open_source());
  return shardkit::write_others(fs_, *source, decision, staged.stage, std::move(weights));
}

Status FSDPModelMerger::check_inputs() {
  SHARDKIT_ASSIGN(const MergeSource* source, open_source());
  return check_inputs_unchanged(fs_, *source);
}

Result<std::optional<MergeReport>> FSDPModelMerger::find_merged() {
  const std::string path = join_path(options_.target_dir, kManifestName);
  const auto written = fs_.info(path);
  if (!written.ok()) return std::optional<MergeReport>();
  const auto text = read_whole_file(fs_, path, kManifestLimit);
  if (!text.ok()) return std::optional<MergeReport>();
  const auto manifest = parse_manifest(*text);
  if (!manifest.ok()) return std::optional<MergeReport>();
  SHARDKIT_ASSIGN(const OutputDecision decision, decide());
  // A manifest tells all that a merge was made of, but the sidecars' times.
  bool is_this = manifest_text(*source_, decision, manifest->files) == *text;
  for (const hf::SidecarFile& file : source_->sidecars)
    is_this = is_this && file.modified_ns <= written->modified_ns;
  if (!is_this) return std::optional<MergeReport>();
  SHARDKIT_ASSIGN(const VerifyReport verified, verify_folder(fs_, options_.target_dir));
  if (!verified.differences.empty()) return std::optional<MergeReport>();
  MergeReport report = make_merge_report(*source_, decision);
  report.target = resolved_path(options_.target_dir);
  report.notes.push_back("the target holds this merge already, and whole: it was not made again");
  return std::optional<MergeReport>(std::move(report));
}

Status FSDPModelMerger::cleanup() { return StagedFolder::discard(fs_, options_.target_dir); }

}  // namespace shardkit
