#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ostream>

#include "cli/compare_command.h"
#include "cli/inspect_command.h"
#include "cli/json_text.h"
#include "cli/merge_command.h"
#include "cli/signals.h"
#include "cli/upload_command.h"
#include "cli/verify_command.h"
#include "shardkit/base/version.h"
#include "shardkit/json/value.h"
#include "shardkit/json/write.h"

namespace shardkit::cli {
namespace {

/// Options are spelled with hyphens here; verl's scripts use underscores. Both are taken.
void normalise_spelling(std::vector<std::string>& args) {
  for (std::string& arg : args) {
    if (!arg.starts_with("--")) continue;
    const auto name_end = std::min(arg.find('='), arg.size());
    std::replace(arg.begin() + 2, arg.begin() + static_cast<std::ptrdiff_t>(name_end), '_', '-');
  }
}

}  // namespace

ExitCode exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return kUsage;
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsafe:
    case ErrorCode::kIncomplete:
    case ErrorCode::kUnsupported:
    case ErrorCode::kLimit: return kInputRefused;
    case ErrorCode::kIo:
    case ErrorCode::kPeer: return kIoFailed;
    case ErrorCode::kCancelled: return kInterrupted;  // main() knows which signal it was
    case ErrorCode::kInternal: return kOurBug;
  }
  return kOurBug;
}

int report_error(const Error& error, bool json, Streams& streams) {
  streams.err << "shardkit: " << error.message() << "\n";
  if (json) streams.out << json::write(to_json(error), json::WriteStyle::kPretty) << "\n";
  return exit_code(error.code());
}

int run(std::vector<std::string> args, Streams& streams) {
  normalise_spelling(args);
  CLI::App app("Merges, inspects and moves sharded PyTorch state, without PyTorch.", "shardkit");
  app.set_version_flag("--version", fmt::format("shardkit {}", version()));
  app.require_subcommand(0, 1);  // with 1, CLI11 would not name an unknown command
  int result = kDone;
  add_merge_command(app, streams, result);
  add_inspect_command(app, streams, result);
  add_verify_command(app, streams, result);
  add_test_command(app, streams, result);
  add_diff_command(app, streams, result);
  add_upload_command(app, streams, result);
  // CLI11 takes the arguments from the back.
  std::reverse(args.begin(), args.end());
  try {
    app.parse(args);
    if (app.get_subcommands().empty()) {
      streams.err << app.help();
      return kUsage;
    }
  } catch (const CLI::ParseError& error) {
    // Help and --version come this way too, with success.
    return app.exit(error, streams.out, streams.err) == 0 ? kDone : kUsage;
  }
  return result;
}

}  // namespace shardkit::cli
