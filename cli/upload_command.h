// `shardkit upload`: a folder to a Hugging Face Hub; and the part of it that `merge` shares.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "shardkit/base/result.h"
#include "shardkit/hub/upload_folder.h"
#include "shardkit/json/value.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace shardkit::cli {

/// Where to, as the options say it.
struct UploadArguments {
  std::string repo;
  std::string revision = "main";
  std::string commit_message;
  bool is_private = false;
};

/// --private, --revision and --commit-message. `arguments` outlives the parsing.
std::vector<CLI::Option*> add_upload_options(CLI::App& command, UploadArguments& arguments);

/// What is wrong with an upload to come and can be said without the network.
Status check_upload(const UploadArguments& arguments);

/// Uploads, with progress on err unless `quiet`.
Result<hub::UploadReport> upload(const std::string& folder, const UploadArguments& arguments,
                                 bool quiet, Streams& streams);

/// Members of a JSON result.
json::Object to_json(const hub::UploadReport& report);
void print(const hub::UploadReport& report, std::ostream& out);

/// As add_merge_command().
void add_upload_command(CLI::App& app, Streams& streams, int& result);

}  // namespace shardkit::cli
