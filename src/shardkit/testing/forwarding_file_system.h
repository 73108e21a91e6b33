// ForwardingFileSystem: a file system that does what another does, for tests to derive from.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/io/file_system.h"

namespace shardkit::testing {

class ForwardingFileSystem : public FileSystem {
 public:
  /// @param base  outlives this
  explicit ForwardingFileSystem(FileSystem& base) : base_(base) {}

  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path) override {
    return base_.open(path);
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return base_.create(path);
  }
  Result<FileInfo> info(const std::string& path) override { return base_.info(path); }
  Result<std::unique_ptr<WritableFile>> open_to_write(const std::string& path) override {
    return base_.open_to_write(path);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path,
                                         std::string_view holder) override {
    return base_.lock(path, holder);
  }
  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    return base_.list(path);
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

 protected:
  FileSystem& base_;
};

}  // namespace shardkit::testing
