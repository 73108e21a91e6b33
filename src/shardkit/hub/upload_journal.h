// UploadJournal: what an upload that dies has done already, so that the same command goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/hub/folder_files.h"
#include "shardkit/hub/repo_api.h"
#include "shardkit/io/file_system.h"

namespace shardkit::hub {

/// Digests of files, and the parts of large ones that the storage has. A file of JSON lines in a
/// folder that only its owner can look into, since it holds addresses to which parts may be sent;
/// where the folder is another's, or open to others, nothing is kept and nothing believed.
///
/// It helps and is never needed: what cannot be read or written is done again. For any number of
/// threads.
class UploadJournal {
 public:
  /// The parts of an object that were sent one by one.
  struct Parts {
    LfsActions actions;
    std::vector<std::string> etags;  ///< empty: not sent
  };

  /// Reads the journal at `path`, if there is one, and keeps it for this process alone.
  /// @param identity  one line that names the upload; another upload's journal is not taken up
  /// @error kIo another process works with it
  static Result<std::unique_ptr<UploadJournal>> open(FileSystem& fs, std::string path,
                                                     std::string_view identity);

  /// False where it cannot be written: an upload that dies then starts large files again.
  bool is_kept() const;

  std::optional<std::string> sha256_of(const FolderFile& file) const;
  void add_sha256(const FolderFile& file, const std::string& oid);

  std::optional<Parts> parts_of(const std::string& oid) const;
  /// From now on parts go there; those sent elsewhere are forgotten.
  void add_actions(const std::string& oid, const LfsActions& actions);
  void add_part(const std::string& oid, std::size_t part, const std::string& etag);

  /// The upload is done: removes it. @error kIo
  Status remove();

 private:
  /// Path, bytes, time of change, inode.
  using FileKey = std::tuple<std::string, std::uint64_t, std::int64_t, std::uint64_t>;

  UploadJournal(FileSystem& fs, std::string path, std::unique_ptr<FileLock> lock)
      : fs_(fs), path_(std::move(path)), lock_(std::move(lock)) {}
  void start(std::string_view identity, std::string_view text);
  bool take_line(std::string_view line);
  void write_line(std::string line);

  FileSystem& fs_;
  const std::string path_;  // empty: there is no place for it
  const std::unique_ptr<FileLock> lock_;
  mutable std::mutex mutex_;
  std::map<FileKey, std::string> digests_;
  std::map<std::string, Parts> parts_;
  std::unique_ptr<WritableFile> file_;
  std::uint64_t end_ = 0;
};

}  // namespace shardkit::hub
