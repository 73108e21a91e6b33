// upload_folder: a folder to a repository of a Hugging Face Hub.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shardkit/base/environment.h"
#include "shardkit/base/result.h"
#include "shardkit/hub/hub_client.h"
#include "shardkit/hub/repo_api.h"
#include "shardkit/hub/upload_progress.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hub {

struct UploadOptions {
  std::string repo;             ///< "ORG/NAME"; made if need be
  std::string branch = "main";  ///< made from the default one if need be
  bool is_private = false;      ///< refuse to send to a repository that is public
  std::string commit_message;   ///< empty: "Upload model with shardkit"
  int connections = 5;          ///< to the storage at once, from 1 to 64
  RetryPolicy retry;
  /// Set it to stop; the error is kCancelled. May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// Called one at a time, on any thread.
  std::function<void(const UploadProgress&)> on_progress;
  /// Told what is waited for, where that takes a second or more. Called as on_progress.
  std::function<void(const std::string&)> on_wait;
};

struct UploadReport {
  std::string page;  ///< of the repository, for people
  std::string branch;
  std::vector<Commit> commits;        ///< none: the branch had all files as they are
  std::uint64_t files_sent = 0;       ///< in the commits
  std::uint64_t files_there = 0;      ///< that the branch had as they are
  std::uint64_t bytes_sent = 0;       ///< of content, as often as it was sent whole
  std::vector<std::string> ignored;   ///< files that .gitignore excludes, as the Hub says
  std::vector<std::string> left_out;  ///< see list_folder()
  std::vector<std::string> warnings;
};

/// What can be said without the network about an upload to come: name, endpoint, token, libraries.
/// @error as upload_folder
Status check_upload(FileSystem& fs, const UploadOptions& options, const Environment& environment);

/// Sends what a folder holds, as commits to a branch, each only when its files are whole in the
/// storage. verl's upload_to_huggingface() does this (verl 0.9.1,
/// model_merger/base_model_merger.py).
///
/// The protocol is that of huggingface_hub 2.4 without Xet: see docs/upload.md, which also says
/// what is retried, resumed and left out. An upload that dies is continued by the same call:
/// digests and the parts of large files are kept in XDG_CACHE_HOME/shardkit/uploads, without the
/// token.
///
/// Memory does not depend on the files' sizes: buffers of some 700 KiB a connection, and some 500
/// bytes a file. Files of the folder are read twice: for their digest, while others are sent; and
/// when they are.
///
/// @error kInvalidArgument a name, the token or the endpoint; kUnsupported no libcurl or libcrypto;
///        kCancelled; kIo the network, what the Hub refuses and why, or a file that changed; as
///        list_folder. Files of earlier commits are in the repository then, no others
Result<UploadReport> upload_folder(FileSystem& fs, const std::string& folder,
                                   const UploadOptions& options,
                                   const Environment& environment = process_environment());

}  // namespace shardkit::hub
