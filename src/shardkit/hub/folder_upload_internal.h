// FolderUpload: one run of upload_folder(), in which digests, sending and commits overlap.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hub/commit_body.h"
#include "shardkit/hub/digest.h"
#include "shardkit/hub/folder_files.h"
#include "shardkit/hub/lfs_sender.h"
#include "shardkit/hub/repo_api.h"
#include "shardkit/hub/upload_folder.h"
#include "shardkit/hub/upload_journal.h"
#include "shardkit/hub/upload_progress.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hub {

/// The journal of an upload: one for each folder, endpoint, repository and branch.
/// @error as UploadJournal::open
Result<std::unique_ptr<UploadJournal>> open_journal(FileSystem& fs, const std::string& folder,
                                                    const UploadOptions& options,
                                                    const HubSession& session);

class FolderUpload {
 public:
  /// All references outlive this. `files` as list_folder() sorts them.
  FolderUpload(FileSystem& fs, const std::string& folder, const UploadOptions& options,
               HubSession& session, RepoApi& api, UploadJournal& journal,
               std::vector<FolderFile> files);
  ~FolderUpload();

  /// Sends and commits. Once. @error as upload_folder
  Result<UploadReport> run();

 private:
  enum class Stage {
    kToHash,  ///< for the storage; its digest is not known
    kHashed,  ///< it is
    kSending,
    kReady,  ///< the storage has it, or it goes along with the commit
    kThere,  ///< the branch has it as it is
    kIgnored,
  };

  struct File {
    FolderFile file;
    bool is_lfs = false;
    std::string remote_oid;  ///< of what the branch has at this path
    std::string oid;         ///< SHA-256, or git's SHA-1
    Stage stage = Stage::kReady;
  };

  std::string path_of(const File& file) const;
  Result<std::string> digest(const File& file, Digest::Kind kind);
  Status ask_how();
  Result<std::vector<PreuploadAnswer>> preupload(std::span<File* const> files);
  void make_groups();
  void hash_all();
  Status hash(File& file);
  Status work();
  bool is_whole(std::span<File> group);
  std::vector<File*> next_batch();
  Status send(const std::vector<File*>& batch);
  Status commit(std::span<File> group);
  Result<Commit> commit_until_known(std::vector<File*> changed, const std::string& message);
  Status result() const;

  FileSystem& fs_;
  const std::string folder_;
  const UploadOptions& options_;
  HubSession& session_;
  RepoApi& api_;
  UploadJournal& journal_;
  ProgressCounter progress_;
  std::optional<std::string> gitignore_;
  std::vector<File> files_;
  std::vector<std::span<File>> groups_;  ///< a commit each
  UploadReport report_;

  mutable std::mutex mutex_;  ///< guards the stages, oids and what follows
  std::condition_variable changed_;
  std::multimap<std::string, File*> sending_;  ///< by oid
  std::optional<Error> hash_error_;
  bool all_hashed_ = false;
  std::unique_ptr<LfsSender> sender_;
  std::thread hasher_;
};

}  // namespace shardkit::hub
