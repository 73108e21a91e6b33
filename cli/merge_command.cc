#include "cli/merge_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <optional>
#include <ostream>

#include "cli/json_text.h"
#include "cli/progress_line.h"
#include "cli/reading_options.h"
#include "cli/upload_command.h"
#include "shardkit/base/size_text.h"
#include "shardkit/collective/agreement.h"
#include "shardkit/collective/gloo/gloo_group.h"
#include "shardkit/collective/launch_environment.h"
#include "shardkit/joint_merge/joint_merge.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"
#include "shardkit/merge/fsdp_merger.h"

namespace shardkit::cli {
namespace {

struct Arguments {
  std::vector<std::string> local_dirs;
  std::string target_dir = "tmp";
  std::string hf_model_config_path;
  std::string base_model_dir;
  std::string dtype = "bfloat16";
  std::vector<std::string> keep_dtype;
  std::string max_shard_size = "5GB";
  ReadingArguments reading;
  VerlArguments verl;
  std::string lora = "adapter";
  std::string adapter;
  std::optional<double> lora_alpha;
  bool overwrite = false;
  bool strict_names = false;
  bool keep_tied = false;
  bool no_fsync = false;
  bool dry_run = false;
  bool launched = false;
  bool quiet = false;
  bool json = false;
  bool uploads = false;
  UploadArguments upload;
};

Result<MergeOptions> to_options(const Arguments& arguments) {
  SHARDKIT_TRY(check_backend(arguments.verl));
  MergeOptions options;
  options.local_dir = arguments.local_dirs.front();
  options.more_local_dirs.assign(arguments.local_dirs.begin() + 1, arguments.local_dirs.end());
  options.target_dir = arguments.target_dir;
  options.hf_folder = arguments.hf_model_config_path;
  options.base_model_dir = arguments.base_model_dir;
  options.strict_names = arguments.strict_names;
  if (options.strict_names && options.base_model_dir.empty())
    return Error(ErrorCode::kInvalidArgument, "--strict-names needs --base-model-dir");
  SHARDKIT_ASSIGN(options.dtype, hf::parse_dtype_choice(arguments.dtype));
  options.dtype.keep = arguments.keep_dtype;
  SHARDKIT_ASSIGN(options.max_shard_bytes, parse_size(arguments.max_shard_size));
  if (options.target_dir.empty())
    return Error(ErrorCode::kInvalidArgument, "--target-dir is empty");
  if (options.max_shard_bytes == 0)
    return Error(ErrorCode::kInvalidArgument, "--max-shard-size must be at least one byte");
  SHARDKIT_ASSIGN(options.transfer, transfer_options(arguments.reading));
  options.replicas = replica_policy(arguments.reading);
  options.plain = plain_tensors(arguments.reading);
  options.existing = arguments.overwrite ? ExistingTarget::kReplace : ExistingTarget::kRefuse;
  options.keep_tied = arguments.keep_tied;
  options.lora.mode = arguments.lora == "merge"          ? LoraMode::kMerge
                      : arguments.lora == "adapter-only" ? LoraMode::kAdapterOnly
                                                         : LoraMode::kAdapter;
  options.lora.adapter = arguments.adapter;
  options.lora.alpha = arguments.lora_alpha;
  options.durability = arguments.no_fsync ? Durability::kUnsynced : Durability::kSynced;
  return options;
}

json::Value to_json(const BaseModelComparison& base) {
  json::Object object;
  object.add("path", base.folder);
  object.add("tensors", base.tensors);
  object.add("same", base.same);
  object.add("missing", to_array(base.missing));
  object.add("extra", to_array(base.extra));
  object.add("other_shape", to_array(base.other_shape));
  object.add("other_config", to_array(base.other_config));
  return object;
}

json::Object to_json(const MergeReport& report, std::string_view status) {
  json::Array weights;
  for (const OutputFile& file : report.weights) {
    json::Object object;
    object.add("name", file.name);
    object.add("bytes", file.bytes);
    weights.items.emplace_back(std::move(object));
  }
  json::Object object;
  object.add("status", status);
  object.add("checkpoint", report.checkpoint);
  object.add("world_size", report.world_size);
  json::Array missing;
  for (const std::int64_t rank : report.missing_ranks) missing.items.emplace_back(rank);
  object.add("missing_ranks", std::move(missing));
  object.add("meshes", to_array(report.meshes));
  object.add("target", report.target);
  object.add("weights", std::move(weights));
  object.add("sidecars", to_array(report.sidecars));
  object.add("tensors", report.summary.tensors);
  object.add("pieces", report.summary.pieces);
  object.add("casts", report.summary.casts);
  object.add("folds", report.summary.folds);
  object.add("lora", report.lora ? json::Value(to_json(*report.lora)) : json::Value());
  object.add("compared_replicas", report.summary.compared_replicas);
  object.add("bytes_read", report.summary.read_bytes);
  object.add("bytes_written", report.summary.write_bytes);
  object.add("config_dtype",
             report.config_dtype ? json::Value(torch_name(*report.config_dtype)) : json::Value());
  json::Object overflows;
  for (const Overflow& overflow : report.overflows) overflows.add(overflow.name, overflow.values);
  object.add("float16_overflows", std::move(overflows));
  object.add("base_model", report.base_model ? to_json(*report.base_model) : json::Value());
  object.add("dropped_ties", to_array(report.dropped_ties));
  object.add("skipped", to_array(report.skipped));
  object.add("notes", to_array(report.notes));
  object.add("warnings", to_array(report.warnings));
  return object;
}

void print(const MergeReport& report, bool planned, std::ostream& out) {
  out << fmt::format("{} {} tensors of {} ranks from {}\n", planned ? "would merge" : "merged",
                     report.summary.tensors, report.world_size, report.checkpoint);
  for (const OutputFile& file : report.weights)
    out << fmt::format("  {}  {}\n", file.name, format_bytes(file.bytes));
  if (!report.sidecars.empty()) out << fmt::format("  with {}\n", fmt::join(report.sidecars, ", "));
  if (report.summary.casts > 0)
    out << fmt::format("{} tensors {}; the others are as they were stored\n", report.summary.casts,
                       planned ? "to be cast" : "cast");
  if (report.summary.compared_replicas > 0)
    out << fmt::format("{} replicas {}\n", report.summary.compared_replicas,
                       planned ? "to be compared" : "compared, all equal");
  for (const std::string& name : report.dropped_ties)
    out << fmt::format("left out: {}, tied to an equal tensor\n", name);
  for (const std::string& entry : report.skipped)
    out << fmt::format("skipped: {}, no tensor\n", entry);
  for (const std::string& note : report.notes) out << "note: " << note << "\n";
  if (planned) {
    out << fmt::format("plan proven: {} pieces, {} to read, {} to write\n", report.summary.pieces,
                       format_bytes(report.summary.read_bytes),
                       format_bytes(report.summary.write_bytes));
    out << fmt::format("dry run, nothing written: {}\n", report.target);
  } else {
    out << fmt::format("done: {}\n", report.target);
  }
}

/// What follows a merge: its result is whole, whatever becomes of the upload.
int upload_merged(const MergeReport& merged, const Arguments& arguments, Streams& streams) {
  const auto report = upload(merged.target, arguments.upload, arguments.quiet, streams);
  if (!report.ok())
    streams.err << fmt::format(
        "the merged model is whole; to upload it: shardkit upload {} {} --revision {}{}\n",
        merged.target, arguments.upload.repo, arguments.upload.revision,
        arguments.upload.is_private ? " --private" : "");
  if (arguments.json) {
    json::Object object = to_json(merged, report.ok() ? "ok" : "upload_failed");
    object.add("upload", report.ok() ? cli::to_json(*report) : cli::to_json(report.error()));
    streams.out << json::write(object, json::WriteStyle::kPretty) << "\n";
  } else if (report.ok() && !arguments.quiet) {
    cli::print(*report, streams.out);
  }
  return report.ok() ? kDone : report_error(report.error(), false, streams);
}

/// The group of the processes that a launcher has started; none for a process alone.
Result<std::unique_ptr<ProcessGroup>> join_group(bool launched) {
  if (!launched) return std::unique_ptr<ProcessGroup>();
  SHARDKIT_ASSIGN(const LaunchEnvironment environment, read_launch_environment());
  return make_gloo_group(environment);
}

Result<MergeReport> carry_out(const MergeOptions& options, const Arguments& arguments,
                              ProcessGroup* group) {
  FileSystem& fs = posix_file_system();
  FSDPModelMerger merger(fs, options);
  if (arguments.dry_run) return group ? plan_jointly(fs, options, *group) : merger.plan();
  // The same command goes on with an upload that died after the merge.
  if (arguments.uploads && !arguments.overwrite) {
    SHARDKIT_ASSIGN(std::optional<MergeReport> merged,
                    group ? find_merged_jointly(fs, options, *group) : merger.find_merged());
    if (merged) return *std::move(merged);
  }
  return group ? merge_jointly(fs, options, *group) : merger.merge_and_save();
}

int merge(const Arguments& arguments, Streams& streams) {
  auto options = to_options(arguments);
  if (!options.ok()) return report_error(options.error(), arguments.json, streams);
  const auto group = join_group(arguments.launched);
  if (!group.ok()) return report_error(group.error(), arguments.json, streams);
  // Of several processes one speaks; what went wrong, each says on its own standard error.
  const bool speaks = *group == nullptr || (*group)->rank() == 0;
  // Better now than after an hour of merging.
  Status ready = speaks && arguments.uploads ? check_upload(arguments.upload) : Status();
  if (*group != nullptr) ready = agree_on_status(**group, std::move(ready));
  if (!ready.ok()) return report_error(ready.error(), arguments.json && speaks, streams);
  ProgressLine progress(streams, "merge");
  if (!arguments.quiet && speaks)
    options->transfer.on_progress = [&progress](const Progress& now) { progress.update(now); };
  const bool planned = arguments.dry_run;
  const auto report = carry_out(*options, arguments, group->get());
  progress.finish();
  if (!report.ok()) return report_error(report.error(), arguments.json && speaks, streams);
  if (!speaks) return kDone;
  for (const std::string& warning : report->warnings) streams.err << "warning: " << warning << "\n";
  if (arguments.json && (planned || !arguments.uploads)) {
    streams.out << json::write(to_json(*report, planned ? "planned" : "ok"),
                               json::WriteStyle::kPretty)
                << "\n";
  } else if (!arguments.json && !arguments.quiet) {
    print(*report, planned, streams.out);
  }
  return arguments.uploads && !planned ? upload_merged(*report, arguments, streams) : kDone;
}

}  // namespace

void add_merge_command(CLI::App& app, Streams& streams, int& result) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("merge", "Merge an FSDP checkpoint into a Hugging Face model folder");
  add_backend_option(*command, arguments->verl);
  command
      ->add_option("--local-dir", arguments->local_dirs,
                   "Checkpoint: a run, a step, a role (actor) or the folder of the shards; "
                   "several times where hosts kept their own files")
      ->required();
  command->add_option("--target-dir", arguments->target_dir, "Folder to write")
      ->capture_default_str();
  command->add_option("--hf-model-config-path", arguments->hf_model_config_path,
                      "Folder with config and tokenizer; default: huggingface/ beside the shards");
  command->add_option(
      "--base-model-dir", arguments->base_model_dir,
      "Model that was trained: names, shapes and vocabulary are compared with its "
      "before anything is written; its weights, where the shards hold a LoRA adapter "
      "alone");
  command->add_flag("--strict-names", arguments->strict_names,
                    "Refuse what differs from the base model");
  command
      ->add_option("--dtype", arguments->dtype,
                   "bfloat16, float16, float32, keep (as stored) or auto (as config.json says)")
      ->capture_default_str();
  command
      ->add_option("--keep-dtype", arguments->keep_dtype,
                   "Tensors that stay as stored: a pattern of whole names, in which * stands for "
                   "any characters and ? for one; may be given several times")
      ->allow_extra_args(false);
  command
      ->add_option("--max-shard-size", arguments->max_shard_size,
                   "Largest weight file; GB is 1e9 bytes, GiB is 2^30")
      ->capture_default_str();
  add_reading_options(*command, arguments->reading);
  command
      ->add_option("--lora", arguments->lora,
                   "Of a checkpoint with a LoRA adapter: adapter (the base model, and the "
                   "adapter in lora_adapter/), merge (fold it in) or adapter-only")
      ->check(CLI::IsMember({"adapter", "merge", "adapter-only"}))
      ->capture_default_str();
  command->add_option("--adapter", arguments->adapter, "Which of several LoRA adapters");
  command
      ->add_option("--lora-alpha", arguments->lora_alpha,
                   "lora_alpha, where no file beside the shards says it")
      ->check(CLI::PositiveNumber);
  command->add_flag("--keep-tied", arguments->keep_tied,
                    "Write tied embeddings twice, as some loaders want it");
  command->add_flag("--overwrite", arguments->overwrite,
                    "Replace a target folder that is not empty, whole");
  command->add_flag("--no-fsync", arguments->no_fsync,
                    "Do not wait for the disk; a crash of the machine may lose the result");
  command->add_flag("--dry-run", arguments->dry_run,
                    "Plan and prove the merge; read no weights and write nothing");
  command->add_flag("--launched", arguments->launched,
                    "This is one of the processes that torchrun, srun or mpirun has started with "
                    "this command: they share the work");
  CLI::Option* const upload_path =
      command->add_option("--hf-upload-path", arguments->upload.repo,
                          "ORG/NAME on a Hugging Face Hub, to upload the merged model to");
  for (CLI::Option* option : add_upload_options(*command, arguments->upload))
    option->needs(upload_path);
  command->add_flag("--quiet", arguments->quiet, "No progress and no summary");
  command->add_flag("--json", arguments->json, "Print the result as one JSON object");
  add_verl_flags(*command, arguments->verl);
  command->callback([arguments, upload_path, &streams, &result] {
    arguments->uploads = upload_path->count() > 0;
    result = merge(*arguments, streams);
  });
}

}  // namespace shardkit::cli
