// PartialDisk: a rank's disk, on which some of the files that others have are not, or are others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/io/file_system.h"
#include "shardkit/io/path.h"
#include "shardkit/testing/forwarding_file_system.h"

namespace shardkit::testing {

/// A file that says it was opened by another path.
class FileAt final : public RandomAccessFile {
 public:
  FileAt(std::unique_ptr<RandomAccessFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return file_->size(); }
  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    return file_->read_at(offset, out);
  }

 private:
  const std::unique_ptr<RandomAccessFile> file_;
  const std::string path_;
};

class PartialDisk final : public ForwardingFileSystem {
 public:
  /// @param base  outlives this
  /// @param lacks  whether a path is not there
  PartialDisk(FileSystem& base, std::function<bool(const std::string&)> lacks)
      : ForwardingFileSystem(base), lacks_(std::move(lacks)) {}
  /// @param name  of what is there instead, at `file`
  PartialDisk(FileSystem& base, std::string name, std::string file)
      : ForwardingFileSystem(base),
        lacks_([](const std::string&) { return false; }),
        name_(std::move(name)),
        file_(std::move(file)) {}

  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path) override {
    if (lacks_(path)) return missing(path);
    SHARDKIT_ASSIGN(auto file, base_.open(at(path)));
    return std::unique_ptr<RandomAccessFile>(std::make_unique<FileAt>(std::move(file), path));
  }
  Result<FileInfo> info(const std::string& path) override {
    if (lacks_(path)) return missing(path);
    return base_.info(at(path));
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

 private:
  static Error missing(const std::string& path) {
    return Error(ErrorCode::kNotFound, "no such file here").in_file(path);
  }
  const std::string& at(const std::string& path) const { return path == name_ ? file_ : path; }

  const std::function<bool(const std::string&)> lacks_;
  const std::string name_;
  const std::string file_;
};

}  // namespace shardkit::testing
