#include "shardkit/merge/fsdp_merger.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardkit/checkpoint/discover.h"
#include "shardkit/hf/config.h"
#include "shardkit/hf/lora.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/block_journal.h"
#include "shardkit/merge/file_sink.h"
#include "shardkit/merge/manifest.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/merge/small_file_writer.h"
#include "shardkit/safetensors/sharded_index.h"

namespace shardkit {
namespace {

/// A target that replaces what the merge reads would destroy a checkpoint worth a week of GPUs.
Status check_target_is_no_input(const MergeOptions& options, const MergeSource& source) {
  const std::string target = resolved_path(options.target_dir);
  std::vector<std::string> inputs = {source.checkpoint.path};
  if (source.hf_folder) inputs.push_back(*source.hf_folder);
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
    SHARDKIT_TRY(check_unchanged(fs, join_path(*source.hf_folder, file.path), file.bytes,
                                 file.modified_ns));
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
                                                const Plan& plan, StagedFolder& stage,
                                                MergeReport& report) {
  std::vector<std::string> names;
  for (const PlannedFile& file : plan.files()) names.push_back(file.name);
  SHARDKIT_TRY(stage.keep_only(names));
  SHARDKIT_ASSIGN(BlockJournal journal, BlockJournal::open(fs, stage.control_path("blocks")));
  FileSink sink(fs, stage, journal, plan);
  SHARDKIT_TRY(transfer(plan, fs, sink, options.transfer));
  SHARDKIT_TRY(journal.close());
  report.blocks_kept = sink.blocks_kept();
  std::vector<ManifestFile> files;
  for (std::size_t f = 0; f < names.size(); ++f)
    files.push_back({names[f], plan.files()[f].bytes, sink.hashes()[f]});
  return files;
}

/// Writes everything but the weights. config.json gets the dtype of the weights; other sidecars are
/// copied as they are.
Status write_others(FileSystem& fs, const MergeSource& source, const OutputDecision& decision,
                    StagedFolder& stage, std::vector<ManifestFile> files) {
  SmallFileWriter writer(fs, stage, files);
  for (const hf::SidecarFile& file : source.sidecars) {
    if (file.path == "config.json" && source.config && decision.output.config_dtype) {
      SHARDKIT_ASSIGN(const std::string text,
                      hf::with_dtype(*source.config, *decision.output.config_dtype));
      SHARDKIT_TRY(writer.write(file.path, text));
    } else {
      SHARDKIT_TRY(writer.copy(join_path(*source.hf_folder, file.path), file.path));
    }
  }
  if (decision.output.index)
    SHARDKIT_TRY(writer.write(safetensors::kIndexFileName, *decision.output.index));
  return writer.write(kManifestName, manifest_text(source, decision, files));
}

void warn(const MergeSource& source, MergeReport& report) {
  if (!source.hf_folder) {
    report.warnings.push_back(
        "no huggingface/ folder beside the shards: the weights are written alone, without "
        "config.json and tokenizer; --hf_model_config_path names a folder to take them from");
  } else if (!source.config) {
    report.warnings.push_back(
        fmt::format("'{}' has no config.json: transformers cannot load the result",
                    *source.hf_folder));
  }
  const auto& tensors = source.catalog->tensors;
  const auto lora = std::count_if(tensors.begin(), tensors.end(), [](const CatalogTensor& tensor) {
    return hf::is_lora_name(tensor.name);
  });
  if (lora > 0)
    report.warnings.push_back(fmt::format(
        "THIS IS NO PLAIN MODEL YET: {} of {} tensors have LoRA names (lora_A, base_layer, ...); "
        "they are written as they are and the adapter is not folded in, so a loader will not "
        "match them", lora, tensors.size()));
}

MergeReport make_report(const MergeSource& source, const OutputDecision& decision) {
  MergeReport report;
  report.checkpoint = source.checkpoint.path;
  report.world_size = source.checkpoint.world_size;
  report.summary = decision.output.plan.summary();
  for (const PlannedFile& file : decision.output.plan.files())
    report.weights.push_back({file.name, file.bytes});
  for (const hf::SidecarFile& file : source.sidecars) {
    report.sidecars.push_back(file.path);
    if (file.path == "config.json" && source.config)
      report.config_dtype = decision.output.config_dtype;
  }
  if (decision.output.index) report.sidecars.emplace_back(safetensors::kIndexFileName);
  report.sidecars.emplace_back(kManifestName);
  report.dropped_ties = decision.dropped_ties;
  for (const SkippedEntry& entry : source.catalog->skipped)
    report.skipped.push_back(fmt::format("{} ({})", entry.name, entry.kind));
  report.notes = source.checkpoint.notes;
  report.notes.insert(report.notes.end(), decision.notes.begin(), decision.notes.end());
  report.warnings = source.catalog->warnings;
  report.warnings.insert(report.warnings.end(), decision.warnings.begin(), decision.warnings.end());
  warn(source, report);
  return report;
}

Result<MergeSource> open_source(FileSystem& fs, const MergeOptions& options) {
  SHARDKIT_ASSIGN(CheckpointFolder checkpoint, discover_checkpoint(fs, options.local_dir));
  SHARDKIT_ASSIGN(MergeSource source,
                  open_merge_source(fs, std::move(checkpoint), options.hf_folder, options.plain));
  SHARDKIT_TRY(check_target_is_no_input(options, source));
  SHARDKIT_TRY(StagedFolder::check(fs, options.target_dir, options.existing));
  return source;
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

Result<MergeReport> merge_fsdp_checkpoint(FileSystem& fs, const MergeOptions& options) {
  SHARDKIT_ASSIGN(const MergeSource source, open_source(fs, options));
  SHARDKIT_ASSIGN(const OutputDecision decision,
                  decide_output(fs, source, options, TensorBytes::kRead));
  SHARDKIT_ASSIGN(StagedFolder stage, StagedFolder::create(fs, options.target_dir,
                                                           stage_options(options, source, decision)));
  MergeReport report = make_report(source, decision);
  report.target = stage.target();
  note_stage(stage, report);
  if (stage.found() != StagedFolder::Found::kPublishing &&
      stage.found() != StagedFolder::Found::kPublished) {
    const Plan& plan = decision.output.plan;
    SHARDKIT_TRY(check_free_space(fs, stage, source, plan));
    SHARDKIT_ASSIGN(std::vector<ManifestFile> files,
                    write_weights(fs, options, plan, stage, report));
    SHARDKIT_TRY(write_others(fs, source, decision, stage, std::move(files)));
    SHARDKIT_TRY(check_inputs_unchanged(fs, source));
  }
  SHARDKIT_TRY(stage.publish());
  return report;
}

Result<MergeReport> plan_fsdp_merge(FileSystem& fs, const MergeOptions& options) {
  SHARDKIT_ASSIGN(const MergeSource source, open_source(fs, options));
  SHARDKIT_ASSIGN(const OutputDecision decision,
                  decide_output(fs, source, options, TensorBytes::kUnread));
  MergeReport report = make_report(source, decision);
  report.target = resolved_path(options.target_dir);
  return report;
}

}  // namespace shardkit
