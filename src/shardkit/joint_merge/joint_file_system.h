// JointFileSystem: the files of all ranks, each on the disk of its host, as if they were on one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_cache.h"
#include "shardkit/io/file_system.h"
#include "shardkit/joint_merge/rank_calls.h"

namespace shardkit {

/// In some folders, a file that this rank's disk lacks is asked for from the lowest rank that has
/// it; such folders list what any rank has there. All else is this rank's disk alone, and so is
/// all that is written.
///
/// A file that this rank has is never asked for: where all ranks see one disk, nothing is sent but
/// what folders hold. Files that several have are taken for equal; that is for the caller to check.
/// A link out of the folders is followed by a rank for itself, but not for others: that is kUnsafe.
///
/// For threads of the work of calls().run(): outside of it, other ranks do not answer.
class JointFileSystem final : public FileSystem {
 public:
  /// @param local    this rank's disk; outlives this
  /// @param group    outlives this; for calls() alone while they last
  /// @param folders  spelled alike on all ranks; ranks are told of nothing outside of them
  /// @param own      a folder that is this rank's disk alone though it lies in one of them, and
  ///                 whatever lies beside it under hidden names that begin with its own
  JointFileSystem(FileSystem& local, ProcessGroup& group, const std::vector<std::string>& folders,
                  const std::string& own);

  RankCalls& calls() { return calls_; }

  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override;

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return local_.create(path);
  }
  Result<std::unique_ptr<WritableFile>> open_to_write(const std::string& path) override {
    return local_.open_to_write(path);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path,
                                         std::string_view holder) override {
    return local_.lock(path, holder);
  }
  Status make_directory(const std::string& path) override { return local_.make_directory(path); }
  Status rename(const std::string& from, const std::string& to) override {
    return local_.rename(from, to);
  }
  Status exchange(const std::string& a, const std::string& b) override {
    return local_.exchange(a, b);
  }
  Status remove_all(const std::string& path) override { return local_.remove_all(path); }
  Status sync_directory(const std::string& path) override { return local_.sync_directory(path); }
  Result<std::uint64_t> free_bytes(const std::string& path) override {
    return local_.free_bytes(path);
  }

 private:
  struct Folder {
    std::string name;      ///< as all ranks spell it
    std::string resolved;  ///< where it is here
  };

  /// What ranks call a path that lies in one of the folders; nothing for all else.
  std::optional<std::string> joint_name(std::string_view path) const;
  /// What another rank says of what this one lacks. @error kNotFound nobody has it
  Result<FileInfo> ask_info(const std::string& name);
  Status check_may_tell(const std::string& path) const;
  Result<std::string> answer(std::string_view question);

  FileSystem& local_;
  std::vector<Folder> folders_;
  std::vector<std::string> own_;
  FileCache served_;
  RankCalls calls_;
  std::mutex mutex_;
  std::map<std::string, int> holders_;  // by joint name, of what this rank lacks
};

}  // namespace shardkit
