// PartialDisk: a rank's disk, on which some of the files that others have are not.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardkit/io/file_system.h"
#include "shardkit/io/path.h"

namespace shardkit::testing {

class PartialDisk final : public FileSystem {
 public:
  /// @param base  outlives this
  /// @param lacks  whether a path is not there
  PartialDisk(FileSystem& base, std::function<bool(const std::string&)> lacks)
      : base_(base), lacks_(std::move(lacks)) {}

  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path) override {
    if (lacks_(path)) return missing(path);
    return base_.open(path);
  }
  Result<FileInfo> info(const std::string& path) override {
    if (lacks_(path)) return missing(path);
    return base_.info(path);
  }
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    if (lacks_(path)) return missing(path);
    auto entries = base_.list(path);
    if (entries.ok())
      std::erase_if(*entries, [this, &path](const DirectoryEntry& entry) {
        return lacks_(join_path(path, entry.name));
      });
    return entries;
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return base_.create(path);
  }
  Result<std::unique_ptr<WritableFile>> open_to_write(const std::string& path) override {
    return base_.open_to_write(path);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path,
                                         std::string_view holder) override {
    return base_.lock(path, holder);
  }
  Status make_directory(const std::string& path) override { return base_.make_directory(path); }
  Status rename(const std::string& from, const std::string& to) override {
    return base_.rename(from, to);
  }
  Status exchange(const std::string& a, const std::string& b) override {
    return base_.exchange(a, b);
  }
  Status remove_all(const std::string& path) override { return base_.remove_all(path); }
  Status sync_directory(const std::string& path) override { return base_.sync_directory(path); }
  Result<std::uint64_t> free_bytes(const std::string& path) override {
    return base_.free_bytes(path);
  }

 private:
  static Error missing(const std::string& path) {
    return Error(ErrorCode::kNotFound, "no such file here").in_file(path);
  }

  FileSystem& base_;
  const std::function<bool(const std::string&)> lacks_;
};

}  // namespace shardkit::testing
