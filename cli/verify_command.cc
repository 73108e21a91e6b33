#include "cli/verify_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "cli/json_text.h"
#include "cli/progress_line.h"
#include "cli/reading_options.h"
#include "cli/signals.h"
#include "shardkit/base/size_text.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"
#include "shardkit/merge/verify.h"

namespace shardkit::cli {
namespace {

struct Arguments {
  std::string folder;
  std::vector<std::string> local_dirs;
  std::string base_model_dir;
  int threads = 0;
  bool quiet = false;
  bool json = false;
};

Result<VerifyReport> run_verify(const Arguments& arguments, ProgressLine& progress) {
  FileSystem& fs = posix_file_system();
  SHARDKIT_ASSIGN(VerifyReport report, verify_folder(fs, arguments.folder));
  if (arguments.local_dirs.empty()) return report;
  TransferOptions options;
  options.threads = arguments.threads;
  options.cancel = &stop_requested();
  if (!arguments.quiet)
    options.on_progress = [&progress](const Progress& now) { progress.update(now); };
  SHARDKIT_ASSIGN(VerifyReport shards,
                  verify_against_checkpoint(fs, arguments.folder, arguments.local_dirs, options,
                                            arguments.base_model_dir));
  for (std::string& difference : shards.differences)
    report.differences.push_back("against the checkpoint: " + std::move(difference));
  return report;
}

json::Value to_json(const VerifyReport& report) {
  json::Object object;
  object.add("status", report.differences.empty() ? "ok" : "differences");
  object.add("folder", report.folder);
  object.add("files", report.files);
  object.add("bytes", report.bytes);
  object.add("differences", to_array(report.differences));
  object.add("unlisted", to_array(report.unlisted));
  return object;
}

void print(const VerifyReport& report, bool against_checkpoint, std::ostream& out) {
  for (const std::string& difference : report.differences)
    out << "DIFFERENT  " << difference << "\n";
  for (const std::string& name : report.unlisted)
    out << "note: '" << name << "' is not in the manifest\n";
  out << fmt::format(
      "{}: {} files, {}: {}{}\n", report.folder, report.files, format_bytes(report.bytes),
      report.differences.empty() ? "as written"
                                 : fmt::format("{} differences", report.differences.size()),
      against_checkpoint && report.differences.empty() ? ", equal to the checkpoint" : "");
}

int verify(const Arguments& arguments, Streams& streams) {
  ProgressLine progress(streams, "verify");
  const auto report = run_verify(arguments, progress);
  progress.finish();
  if (!report.ok()) return report_error(report.error(), arguments.json, streams);
  if (arguments.json) {
    streams.out << json::write(to_json(*report), json::WriteStyle::kPretty) << "\n";
  } else if (!arguments.quiet) {
    print(*report, !arguments.local_dirs.empty(), streams.out);
  }
  return report->differences.empty() ? kDone : kDifferences;
}

}  // namespace

void add_verify_command(CLI::App& app, Streams& streams, int& result) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "verify", "Compare a merged folder with its manifest, and with the shards it came from");
  command->add_option("folder", arguments->folder, "Folder that a merge wrote")->required();
  command->add_option(
      "--local-dir", arguments->local_dirs,
      "Checkpoint: compare every weight with the shards, too; may come several times");
  command->add_option("--base-model-dir", arguments->base_model_dir,
                      "As the merge of a LoRA adapter alone had it");
  add_threads_option(*command, arguments->threads);
  command->add_flag("--quiet", arguments->quiet, "No progress and no summary");
  command->add_flag("--json", arguments->json, "Print the result as one JSON object");
  command->callback([arguments, &streams, &result] { result = verify(*arguments, streams); });
}

}  // namespace shardkit::cli
