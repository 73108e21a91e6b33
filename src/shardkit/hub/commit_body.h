// CommitBody: the lines of JSON that ask a Hub for a commit, made as they are sent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardkit/hub/request_body.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hub {

struct CommitFile {
  std::string path;  ///< in the repository
  std::uint64_t bytes = 0;
  std::string lfs_oid;  ///< SHA-256 of an object in the storage; empty: the content goes along
};

/// A header, then a line for each file (huggingface_hub 2.4, _commit_api.py): content as Base64,
/// read from the folder piece by piece.
class CommitBody : public RequestBody {
 public:
  /// @param message  its first line is the commit's title, the rest its description
  CommitBody(FileSystem& fs, const std::string& folder, std::string_view message,
             const std::vector<CommitFile>& files);

  std::uint64_t size() const override { return size_; }
  /// @error also kIo: a file is not as long as it was said to be
  Status read(std::uint64_t offset, std::span<std::byte> out) override;

 private:
  /// Text, or the content of a file.
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::string text;
    std::string path;  ///< of the file; empty: text
    std::uint64_t file_bytes = 0;
  };

  void add_text(std::string text);
  Status read_content(const Piece& piece, std::uint64_t offset, std::span<std::byte> out);

  FileCache files_;
  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
};

}  // namespace shardkit::hub
