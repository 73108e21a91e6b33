// RepoApi: what a Hub's HTTP interface does with one repository.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hub/hub_client.h"
#include "shardkit/hub/request_body.h"

namespace shardkit::hub {

/// "ORG/NAME". @error kInvalidArgument as huggingface_hub's validate_repo_id, and without an ORG
Status check_repo_name(std::string_view name);

/// What a Hub is told of a file before it is sent, and what it answers.
struct PreuploadFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::string sample;  ///< its first 512 bytes in Base64
};

struct PreuploadAnswer {
  bool is_lfs = false;      ///< to be sent to the storage; else within the commit
  bool is_ignored = false;  ///< .gitignore says so
  std::string oid;          ///< of what the branch has at this path: SHA-256, or git's SHA-1
};

struct LfsObject {
  std::string oid;  ///< SHA-256
  std::uint64_t bytes = 0;
};

/// How to send an object to the storage.
struct LfsActions {
  bool is_there = false;         ///< nothing is to be sent
  std::uint64_t part_bytes = 0;  ///< 0: all of it at once, to parts[0]
  std::vector<std::string> parts;
  std::string completion;    ///< where to tell that all parts are there; empty: nowhere
  std::string verification;  ///< where to ask whether the object is whole; empty: nowhere
};

struct Commit {
  std::string oid;
  std::string url;
};

/// The protocol of huggingface_hub 2.4 (hf_api.py, _commit_api.py, lfs.py), without Xet. All that a
/// server says is checked. For one thread at a time.
///
/// @error everywhere: as HubClient::send; kIo the server refuses (what it may mean is said: the
///        token and where it is from, rights, no such repository, storage used up) or answers
///        what nobody asked for
class RepoApi {
 public:
  /// @param client  outlives this
  /// @param repo    of check_repo_name()
  RepoApi(HubClient& client, std::string repo, std::string branch)
      : client_(&client), repo_(std::move(repo)), branch_(std::move(branch)) {}

  /// Makes the repository, if need be. With `is_private` it is asked afterwards whether it is
  /// private, whoever made it. @error kIo also: it is public and should not be
  Status create(bool is_private);
  /// Makes the branch from the default one, if need be.
  Status create_branch();
  /// The commit that the branch is at.
  Result<std::string> branch_oid();

  /// @param files      at most kMostPreuploadFiles
  /// @param gitignore  the folder's .gitignore, if it has one
  /// @return as many answers, in the same order
  Result<std::vector<PreuploadAnswer>> preupload(std::span<const PreuploadFile> files,
                                                 const std::optional<std::string>& gitignore);
  static constexpr std::size_t kMostPreuploadFiles = 256;

  /// @return as many answers, in the same order
  Result<std::vector<LfsActions>> lfs_batch(std::span<const LfsObject> objects);
  /// Tells the storage that all parts are there. Returns the answer, whatever its status.
  /// @param etags  of the parts in their order
  Result<HttpResponse> complete(const std::string& address, const std::string& oid,
                                std::span<const std::string> etags);
  /// @param path  of the object's file, for the error
  Status verify(const std::string& address, const LfsObject& object, std::string_view path);
  /// No value: nobody knows whether the commit was made, since no answer or one of 5xx came.
  Result<std::optional<Commit>> commit(RequestBody& body);

  /// Where an address of LfsActions leads. @error kIo no address, or without encryption where the
  /// endpoint has it
  Result<Url> storage_url(std::string_view address) const;
  /// An answer of the server to `what` ("make the repository") as an error.
  Error refusal(const HttpResponse& response, std::string_view what) const;
  /// The same of the storage, which does not take the file `path`.
  Error storage_refusal(const HttpResponse& response, std::string_view path) const;
  /// "ENDPOINT/ORG/NAME".
  std::string page() const;

 private:
  Result<HttpResponse> post(const std::string& path, std::string body, std::string_view what);
  Result<Url> own_url(const std::string& path) const;
  const Token& token() const { return client_->session().access.token; }
  std::string api_path(std::string_view end) const;

  HubClient* client_;
  std::string repo_;
  std::string branch_;
};

}  // namespace shardkit::hub
