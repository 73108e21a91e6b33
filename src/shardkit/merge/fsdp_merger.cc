#include "shardkit/merge/fsdp_merger.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardkit/checkpoint/discover.h"
#include "shardkit/hf/config.h"
#include "shardkit/hf/lora.h"
#include "shardkit/io/path.h"
#include "shardkit/merge/file_sink.h"
#include "shardkit/merge/merge_source.h"
#include "shardkit/merge/output_plan.h"
#include "shardkit/merge/plain_tensors.h"
#include "shardkit/merge/tied_tensors.h"
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

Status check_free_space(FileSystem& fs, const StagedFolder& stage, const MergeSource& source,
                        const Plan& plan) {
  std::uint64_t needed = plan.summary().write_bytes;
  for (const hf::SidecarFile& file : source.sidecars) needed += file.bytes;
  SHARDKIT_ASSIGN(const std::uint64_t free, fs.free_bytes(stage.path()));
  if (needed <= free) return {};
  return Error(ErrorCode::kIo, "not enough space for the model")
      .in_file(stage.target())
      .expected(fmt::format("{} bytes", needed))
      .found(fmt::format("{} bytes free", free));
}

Status write_text(StagedFolder& stage, std::string_view name, std::string_view text) {
  SHARDKIT_ASSIGN(const auto file, stage.create_file(name));
  SHARDKIT_TRY(file->write_at(0, std::as_bytes(std::span(text))));
  return stage.finish_file(*file);
}

Status copy_file(FileSystem& fs, const std::string& from, StagedFolder& stage,
                 std::string_view name) {
  SHARDKIT_ASSIGN(const auto source, fs.open(from));
  SHARDKIT_ASSIGN(const auto target, stage.create_file(name));
  std::vector<std::byte> buffer(1 << 20);
  for (std::uint64_t at = 0; at < source->size();) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), source->size() - at));
    const std::span part(buffer.data(), bytes);
    SHARDKIT_TRY(source->read_at(at, part));
    SHARDKIT_TRY(target->write_at(at, part));
    at += bytes;
  }
  return stage.finish_file(*target);
}

/// config.json gets the dtype of the weights; everything else is copied as it is.
Status write_sidecars(FileSystem& fs, const MergeSource& source, const OutputPlan& output,
                      StagedFolder& stage, MergeReport& report) {
  for (const hf::SidecarFile& file : source.sidecars) {
    if (file.path == "config.json" && source.config && output.config_dtype) {
      SHARDKIT_ASSIGN(const std::string text, hf::with_dtype(*source.config, *output.config_dtype));
      SHARDKIT_TRY(write_text(stage, file.path, text));
      report.config_dtype = output.config_dtype;
    } else {
      SHARDKIT_TRY(copy_file(fs, join_path(*source.hf_folder, file.path), stage, file.path));
    }
    report.sidecars.push_back(file.path);
  }
  if (output.index) {
    SHARDKIT_TRY(write_text(stage, safetensors::kIndexFileName, *output.index));
    report.sidecars.emplace_back(safetensors::kIndexFileName);
  }
  return {};
}

/// Whether a decision may look at tensor bytes.
enum class TensorBytes { kRead, kUnread };

/// Which tensors are left out because their config ties them to an equal one.
Result<std::vector<bool>> drop_ties(FileSystem& fs, const MergeOptions& options,
                                    const MergeSource& source, TensorBytes bytes,
                                    MergeReport& report) {
  const Catalog& catalog = *source.catalog;
  std::vector<bool> dropped(catalog.tensors.size(), false);
  std::vector<Tie> ties = find_ties(source);
  if (bytes == TensorBytes::kRead) SHARDKIT_TRY(settle_ties(fs, catalog, ties));
  for (const Tie& tie : ties) {
    const std::string& canonical = catalog.tensors[tie.canonical].name;
    const std::string& alias = catalog.tensors[tie.alias].name;
    if (tie.state == TieState::kUnread)
      report.notes.push_back(
          fmt::format("'{}' is taken to equal '{}'; a merge compares them", alias, canonical));
    if (tie.state == TieState::kDifferent) {
      report.warnings.push_back(fmt::format(
          "config.json ties '{}' to '{}', but they differ: both are kept; a loader that ties "
          "them will lose one", alias, canonical));
    } else if (options.keep_tied) {
      report.notes.push_back(fmt::format("'{}' equals '{}' and is kept", alias, canonical));
    } else {
      dropped[tie.alias] = true;
      report.dropped_ties.push_back(alias);
    }
  }
  return dropped;
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

/// Decides what is written, and proves it.
Result<OutputPlan> decide(FileSystem& fs, const MergeOptions& options, const MergeSource& source,
                          TensorBytes bytes, MergeReport& report) {
  OutputOptions output_options;
  output_options.max_shard_bytes = options.max_shard_bytes;
  output_options.replicas = options.replicas;
  SHARDKIT_ASSIGN(output_options.dtype,
                  hf::resolve(options.dtype, source.config ? &*source.config : nullptr));
  if (options.plain == PlainTensors::kAuto && bytes == TensorBytes::kRead)
    SHARDKIT_TRY(check_concatenated(fs, source));
  SHARDKIT_ASSIGN(const std::vector<bool> dropped, drop_ties(fs, options, source, bytes, report));
  SHARDKIT_ASSIGN(OutputPlan output, plan_output(source, dropped, output_options));
  report.summary = output.plan.summary();
  for (const PlannedFile& file : output.plan.files())
    report.weights.push_back({file.name, file.bytes});
  return output;
}

MergeReport start_report(const MergeSource& source) {
  MergeReport report;
  report.checkpoint = source.checkpoint.path;
  report.world_size = source.checkpoint.world_size;
  report.notes = source.checkpoint.notes;
  for (const SkippedEntry& entry : source.catalog->skipped)
    report.skipped.push_back(fmt::format("{} ({})", entry.name, entry.kind));
  report.warnings = source.catalog->warnings;
  warn(source, report);
  return report;
}

Result<MergeSource> open_source(FileSystem& fs, const MergeOptions& options) {
  SHARDKIT_ASSIGN(CheckpointFolder checkpoint, discover_checkpoint(fs, options.local_dir));
  SHARDKIT_ASSIGN(MergeSource source,
                  open_merge_source(fs, std::move(checkpoint), options.hf_folder, options.plain));
  SHARDKIT_TRY(check_target_is_no_input(options, source));
  return source;
}

}  // namespace

Result<MergeReport> merge_fsdp_checkpoint(FileSystem& fs, const MergeOptions& options) {
  SHARDKIT_ASSIGN(const MergeSource source, open_source(fs, options));
  SHARDKIT_ASSIGN(StagedFolder stage,
                  StagedFolder::create(fs, options.target_dir, options.existing,
                                       options.durability));
  MergeReport report = start_report(source);
  report.target = stage.target();
  SHARDKIT_ASSIGN(const OutputPlan output,
                  decide(fs, options, source, TensorBytes::kRead, report));
  SHARDKIT_TRY(check_free_space(fs, stage, source, output.plan));

  FileSink sink(stage, output.plan);
  SHARDKIT_TRY(transfer(output.plan, fs, sink, options.transfer));
  SHARDKIT_TRY(write_sidecars(fs, source, output, stage, report));
  SHARDKIT_TRY(stage.publish());
  return report;
}

Result<MergeReport> plan_fsdp_merge(FileSystem& fs, const MergeOptions& options) {
  SHARDKIT_ASSIGN(const MergeSource source, open_source(fs, options));
  SHARDKIT_TRY(StagedFolder::check(fs, options.target_dir, options.existing));
  MergeReport report = start_report(source);
  report.target = resolved_path(options.target_dir);
  SHARDKIT_ASSIGN(const OutputPlan output,
                  decide(fs, options, source, TensorBytes::kUnread, report));
  const auto& tensors = source.catalog->tensors;
  const auto chunks = std::count_if(tensors.begin(), tensors.end(), [](const CatalogTensor& tensor) {
    return tensor.concatenated;
  });
  if (chunks > 0 && options.plain == PlainTensors::kAuto)
    report.notes.push_back(fmt::format(
        "{} plain tensors are taken for chunks; a merge refuses ranks that are all equal", chunks));
  for (const hf::SidecarFile& file : source.sidecars) {
    report.sidecars.push_back(file.path);
    if (file.path == "config.json" && source.config) report.config_dtype = output.config_dtype;
  }
  if (output.index) report.sidecars.emplace_back(safetensors::kIndexFileName);
  return report;
}

}  // namespace shardkit
