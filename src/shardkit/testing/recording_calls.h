// RecordingCalls: system calls that write down which folders are made and synced, in order.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "shardkit/io/system_calls.h"

namespace shardkit::testing {

/// For any number of threads.
class RecordingCalls : public SystemCalls {
 public:
  /// "make PATH", "rename PATH" (the new name), "sync PATH" (a file or a folder).
  std::vector<std::string> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

  int open(const char* path, int flags, mode_t mode) override {
    const int fd = SystemCalls::open(path, flags, mode);
    const std::lock_guard lock(mutex_);
    open_[fd] = path;
    return fd;
  }
  int fsync(int fd) override {
    const int result = SystemCalls::fsync(fd);
    const std::lock_guard lock(mutex_);
    calls_.push_back("sync " + open_[fd]);
    return result;
  }
  int mkdir(const char* path, mode_t mode) override {
    return note("make ", path, SystemCalls::mkdir(path, mode));
  }
  int rename(const char* from, const char* to) override {
    return note("rename ", to, SystemCalls::rename(from, to));
  }

 private:
  /// What has succeeded.
  int note(const char* what, const char* path, int result) {
    if (result != 0) return result;
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::string(what) + path);
    return result;
  }

  mutable std::mutex mutex_;
  std::map<int, std::string> open_;
  std::vector<std::string> calls_;
};

}  // namespace shardkit::testing
