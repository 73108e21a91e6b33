// FaultyCalls: system calls of which the k-th of a kind fails, is cut short, or kills the process.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

#include "shardkit/io/system_calls.h"

namespace shardkit::testing {

// Taking room for a file is kReserve; removing a folder counts as kUnlink, too.
enum class CallKind {
  kNone,
  kOpen,
  kRead,
  kWrite,
  kFsync,
  kRename,
  kClose,
  kMkdir,
  kUnlink,
  kReserve
};

enum class FaultAction {
  kFail,   ///< with `number` as errno
  kShort,  ///< half of the bytes, at least one; other calls are not changed
  kDelay,  ///< a millisecond
  kKill,   ///< SIGKILL to the process, before the call is made
};

struct Fault {
  CallKind kind = CallKind::kNone;
  int k = 0;  ///< from 1
  FaultAction action = FaultAction::kFail;
  int number = EIO;
};

/// Calls the system, but for one fault; and plays a mount point and a file system without exchange.
/// For any number of threads.
class FaultyCalls : public SystemCalls {
 public:
  explicit FaultyCalls(Fault fault = {}) : fault_(fault) {}

  bool triggered() const { return triggered_; }
  bool has_exchange = true;
  std::string mount_point;  ///< this path, and what is below, is told to be another device
  std::string read_only;    ///< nothing can be made in this folder itself

  int open(const char* path, int flags, mode_t mode) override {
    if ((flags & O_CREAT) != 0 && forbids(path)) return -1;
    return fails(CallKind::kOpen) ? -1 : SystemCalls::open(path, flags, mode);
  }
  ssize_t pread(int fd, void* data, std::size_t bytes, off_t offset) override {
    return fails(CallKind::kRead) ? -1 : SystemCalls::pread(fd, data, cut(bytes), offset);
  }
  ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t offset) override {
    return fails(CallKind::kWrite) ? -1 : SystemCalls::pwrite(fd, data, cut(bytes), offset);
  }
  int fsync(int fd) override { return fails(CallKind::kFsync) ? -1 : SystemCalls::fsync(fd); }
  int close(int fd) override {
    const bool failed = fails(CallKind::kClose);
    const int number = errno;
    const int result = SystemCalls::close(fd);  // a close that fails has closed all the same
    if (failed) errno = number;
    return failed ? -1 : result;
  }
  int mkdir(const char* path, mode_t mode) override {
    if (forbids(path)) return -1;
    return fails(CallKind::kMkdir) ? -1 : SystemCalls::mkdir(path, mode);
  }
  int rename(const char* from, const char* to) override {
    return fails(CallKind::kRename) ? -1 : SystemCalls::rename(from, to);
  }
  int exchange(const char* a, const char* b) override {
    if (!has_exchange) return errno = EINVAL, -1;
    return fails(CallKind::kRename) ? -1 : SystemCalls::exchange(a, b);
  }
  int unlink(const char* path) override {
    return fails(CallKind::kUnlink) ? -1 : SystemCalls::unlink(path);
  }
  int rmdir(const char* path) override {
    return fails(CallKind::kUnlink) ? -1 : SystemCalls::rmdir(path);
  }
  int fallocate(int fd, off_t bytes) override {
    return fails(CallKind::kReserve) ? -1 : SystemCalls::fallocate(fd, bytes);
  }
  int stat(const char* path, struct stat* result) override {
    const int status = SystemCalls::stat(path, result);
    if (status == 0 && !mount_point.empty() && std::string(path).starts_with(mount_point))
      result->st_dev += 1000;
    return status;
  }

 private:
  bool forbids(const std::string& path) {
    if (read_only.empty() || path.substr(0, path.rfind('/')) != read_only) return false;
    errno = EROFS;
    return true;
  }

  bool fails(CallKind kind) {
    cut_ = false;
    if (kind != fault_.kind || ++count_ != fault_.k) return false;
    triggered_ = true;
    switch (fault_.action) {
      case FaultAction::kFail: errno = fault_.number; return true;
      case FaultAction::kShort: cut_ = true; return false;
      case FaultAction::kDelay: ::usleep(1000); return false;
      case FaultAction::kKill: ::kill(::getpid(), SIGKILL);
    }
    return false;
  }

  static std::size_t cut(std::size_t bytes) {
    return cut_ ? std::max<std::size_t>(bytes / 2, std::min<std::size_t>(bytes, 1)) : bytes;
  }

  const Fault fault_;
  std::atomic<int> count_ = 0;
  std::atomic<bool> triggered_ = false;
  static inline thread_local bool cut_ = false;
};

}  // namespace shardkit::testing
