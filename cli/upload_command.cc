#include "cli/upload_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <mutex>
#include <ostream>

#include "cli/json_text.h"
#include "cli/progress_line.h"
#include "cli/signals.h"
#include "shardkit/base/size_text.h"
#include "shardkit/io/file_system.h"
#include "shardkit/json/write.h"

namespace shardkit::cli {
namespace {

struct Arguments {
  std::string folder;
  UploadArguments to;
  bool quiet = false;
  bool json = false;
};

hub::UploadOptions to_options(const UploadArguments& arguments) {
  hub::UploadOptions options;
  options.repo = arguments.repo;
  options.branch = arguments.revision;
  options.is_private = arguments.is_private;
  options.commit_message = arguments.commit_message;
  options.cancel = &stop_requested();
  return options;
}

int run_upload(const Arguments& arguments, Streams& streams) {
  const auto report = upload(arguments.folder, arguments.to, arguments.quiet, streams);
  if (!report.ok()) return report_error(report.error(), arguments.json, streams);
  if (arguments.json) {
    json::Object object;
    object.add("status", "ok");
    for (auto& [name, value] : to_json(*report).members) object.add(name, std::move(value));
    streams.out << json::write(object, json::WriteStyle::kPretty) << "\n";
  } else if (!arguments.quiet) {
    print(*report, streams.out);
  }
  return kDone;
}

}  // namespace

std::vector<CLI::Option*> add_upload_options(CLI::App& command, UploadArguments& arguments) {
  return {
      command.add_flag("--private", arguments.is_private,
                       "Make the repository private; refuse one that is public"),
      command.add_option("--revision", arguments.revision, "Branch to commit to; made if need be")
          ->capture_default_str(),
      command.add_option("--commit-message", arguments.commit_message,
                         "Title of the commit, and description after the first line"),
  };
}

Status check_upload(const UploadArguments& arguments) {
  return hub::check_upload(posix_file_system(), to_options(arguments), process_environment());
}

Result<hub::UploadReport> upload(const std::string& folder, const UploadArguments& arguments,
                                 bool quiet, Streams& streams) {
  hub::UploadOptions options = to_options(arguments);
  ProgressLine line(streams, "upload");
  std::mutex mutex;  // the two are called on different threads
  if (!quiet) {
    options.on_progress = [&](const hub::UploadProgress& now) {
      const std::lock_guard lock(mutex);
      line.update({now.bytes_done, now.bytes_total},
                  fmt::format("  {} of {} files", now.files_done, now.files_total));
    };
    options.on_wait = [&](const std::string& why) {
      const std::lock_guard lock(mutex);
      line.note(why);
    };
  }
  auto report = hub::upload_folder(posix_file_system(), folder, options);
  line.finish();
  if (report.ok())
    for (const std::string& warning : report->warnings)
      streams.err << "warning: " << warning << "\n";
  return report;
}

json::Object to_json(const hub::UploadReport& report) {
  json::Array commits;
  for (const hub::Commit& commit : report.commits) {
    json::Object object;
    object.add("oid", commit.oid);
    object.add("url", commit.url);
    commits.items.emplace_back(std::move(object));
  }
  json::Object object;
  object.add("repository", report.page);
  object.add("branch", report.branch);
  object.add("commits", std::move(commits));
  object.add("files_sent", report.files_sent);
  object.add("files_there", report.files_there);
  object.add("bytes_sent", report.bytes_sent);
  object.add("ignored", to_array(report.ignored));
  object.add("left_out", to_array(report.left_out));
  object.add("warnings", to_array(report.warnings));
  return object;
}

void print(const hub::UploadReport& report, std::ostream& out) {
  out << fmt::format("uploaded {} files, {} sent, to {} (branch {})\n", report.files_sent,
                     format_bytes(report.bytes_sent), report.page, report.branch);
  if (report.files_there > 0)
    out << fmt::format("{} files were there already\n", report.files_there);
  for (const std::string& path : report.ignored)
    out << fmt::format("left out: {}, as .gitignore says\n", path);
  for (const std::string& path : report.left_out) out << fmt::format("left out: {}\n", path);
  for (const hub::Commit& commit : report.commits) out << fmt::format("commit: {}\n", commit.url);
}

void add_upload_command(CLI::App& app, Streams& streams, int& result) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("upload", "Upload a folder to a Hugging Face Hub");
  command->add_option("folder", arguments->folder, "Folder to upload")->required();
  command->add_option("repository", arguments->to.repo, "ORG/NAME; made if need be")->required();
  add_upload_options(*command, arguments->to);
  command->add_flag("--quiet", arguments->quiet, "No progress and no summary");
  command->add_flag("--json", arguments->json, "Print the result as one JSON object");
  command->callback([arguments, &streams, &result] { result = run_upload(*arguments, streams); });
}

}  // namespace shardkit::cli
