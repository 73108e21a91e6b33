// FileCache: many files, few of them open at once.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit {

/// Opens files on demand and closes the one used least recently: a checkpoint of 1,024 ranks has
/// more files than `ulimit -n` usually allows. Safe to use from many threads.
class FileCache {
 public:
  /// @param capacity  files kept open, >= 1; those in use by callers come on top
  FileCache(FileSystem& fs, std::size_t capacity) : fs_(fs), capacity_(capacity) {}

  /// An open file, which stays open while the caller holds it. @error as FileSystem::open()
  Result<std::shared_ptr<const RandomAccessFile>> open(const std::string& path);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const RandomAccessFile>>;

  FileSystem& fs_;
  const std::size_t capacity_;
  std::mutex mutex_;
  std::list<Entry> recent_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_path_;
};

}  // namespace shardkit
