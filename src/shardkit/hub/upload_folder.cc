#include "shardkit/hub/upload_folder.h"

#include <algorithm>
#include <utility>

#include "shardkit/hub/folder_files.h"
#include "shardkit/hub/folder_upload_internal.h"
#include "shardkit/hub/http_connection.h"
#include "shardkit/io/path.h"

namespace shardkit::hub {
namespace {

constexpr std::string_view kDefaultBranch = "main";

Status check_options(const UploadOptions& options) {
  SHARDKIT_TRY(check_repo_name(options.repo));
  const std::string& branch = options.branch;
  const bool is_branch =
      !branch.empty() && branch.size() <= 255 &&
      std::all_of(branch.begin(), branch.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!is_branch)
    return Error(ErrorCode::kInvalidArgument, "not the name of a branch").found(branch);
  if (options.connections < 1 || options.connections > 64)
    return Error(ErrorCode::kInvalidArgument, "connections must be from 1 to 64");
  return {};
}

Result<UploadReport> upload(HubSession& session, FileSystem& fs, const std::string& folder,
                            const UploadOptions& options) {
  SHARDKIT_ASSIGN(FolderFiles files, list_folder(fs, folder));
  SHARDKIT_ASSIGN(HubClient client, HubClient::make(session));
  RepoApi api(client, options.repo, options.branch);
  SHARDKIT_ASSIGN(const auto journal, open_journal(fs, folder, options, session));
  SHARDKIT_TRY(api.create(options.is_private));
  if (options.branch != kDefaultBranch) SHARDKIT_TRY(api.create_branch());

  FolderUpload upload(fs, folder, options, session, api, *journal, std::move(files.files));
  SHARDKIT_ASSIGN(UploadReport report, upload.run());
  report.page = api.page();
  report.branch = options.branch;
  report.left_out = std::move(files.left_out);
  if (!journal->is_kept())
    report.warnings.push_back(
        "no record could be kept of this upload: one that dies sends its "
        "large files again");
  if (const auto removed = journal->remove(); !removed.ok())
    report.warnings.push_back("the record of this upload stays: " + removed.error().message());
  return report;
}

}  // namespace

Status check_upload(FileSystem& fs, const UploadOptions& options, const Environment& environment) {
  SHARDKIT_TRY(check_options(options));
  SHARDKIT_ASSIGN(const Access access, read_access(fs, environment));
  SHARDKIT_TRY(Digest::make(Digest::Kind::kSha256));
  SHARDKIT_TRY(HttpConnection::make(environment, [] { return false; }));
  return {};
}

Result<UploadReport> upload_folder(FileSystem& fs, const std::string& folder,
                                   const UploadOptions& options, const Environment& environment) {
  SHARDKIT_TRY(check_options(options));
  SHARDKIT_ASSIGN(Access access, read_access(fs, environment));
  HubSession session(std::move(access), environment, options.retry, options.cancel,
                     options.on_wait);
  auto report = upload(session, fs, folder, options);
  // Addresses of a server's choice are told, and it may have put the token into them.
  if (!report.ok()) return session.access.token.redact(report.error());
  return report;
}

}  // namespace shardkit::hub
