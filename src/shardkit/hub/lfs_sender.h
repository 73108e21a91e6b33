// LfsSender: objects to a Hub's storage, in parts, over several connections at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hub/folder_files.h"
#include "shardkit/hub/hub_client.h"
#include "shardkit/hub/repo_api.h"
#include "shardkit/hub/upload_journal.h"
#include "shardkit/hub/upload_progress.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hub {

/// A part whose connection drops, or that is refused for a time, is sent again, and no other. Where
/// addresses are no longer good (they expire), new ones are asked for. Parts that the journal knows
/// are not sent again. A file that changes ends the upload: the journal keeps no part of a file
/// that was not, after it was sent, what it had been when it was listed. Memory: some 700 KiB a
/// connection.
class LfsSender {
 public:
  /// Starts `connections` threads. All references outlive this.
  /// @param folder   the one whose files are sent
  /// @param on_done  called on a thread of the sender when an object is in the storage, or after
  ///                 an error, which result() then has
  static Result<std::unique_ptr<LfsSender>> make(HubSession& session, FileSystem& fs,
                                                 const std::string& folder, const std::string& repo,
                                                 const std::string& branch, UploadJournal& journal,
                                                 ProgressCounter& progress, int connections,
                                                 std::function<void(const std::string&)> on_done);
  /// Ends the threads; what is not sent by then stays unsent.
  ~LfsSender();

  /// Sends a file of the folder.
  /// @param oid      its SHA-256
  /// @param actions  of RepoApi::lfs_batch(), for something that is not there
  void add(FolderFile file, std::string oid, LfsActions actions);
  /// Parts that wait for a connection.
  std::size_t waiting_parts() const;
  /// The first error, after which nothing more is sent.
  Status result() const;
  std::uint64_t sent_bytes() const;

 private:
  struct Sending;
  struct Part;

  LfsSender(HubSession& session, FileSystem& fs, const std::string& folder, UploadJournal& journal,
            ProgressCounter& progress, std::function<void(const std::string&)> on_done)
      : session_(session),
        fs_(fs),
        folder_(folder),
        journal_(journal),
        progress_(progress),
        on_done_(std::move(on_done)) {}

  void work(HubClient& client, RepoApi& api);
  std::optional<Part> take_part();
  Status send_part(HubClient& client, RepoApi& api, const Part& part);
  Status finish(RepoApi& api, const std::shared_ptr<Sending>& sending, int generation);
  Status renew(RepoApi& api, const std::shared_ptr<Sending>& sending, int generation,
               const HttpResponse& refused);
  void take_up(Sending& sending);
  void end(const Sending& sending);

  HubSession& session_;
  FileSystem& fs_;
  const std::string folder_;
  UploadJournal& journal_;
  ProgressCounter& progress_;
  const std::function<void(const std::string&)> on_done_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Sending>> queue_;  // those with parts to send
  std::optional<Error> error_;
  bool closing_ = false;
  std::uint64_t sent_bytes_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace shardkit::hub
