// SystemCalls: the calls that PosixFileSystem makes, so that a test can make any of them fail.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "shardkit/io/file_system.h"

namespace shardkit {

/// Each does what the call of its name does, errno included.
class SystemCalls {
 public:
  virtual ~SystemCalls() = default;

  virtual int open(const char* path, int flags, mode_t mode);
  virtual ssize_t pread(int fd, void* data, std::size_t bytes, off_t offset);
  virtual ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t offset);
  virtual int fsync(int fd);
  virtual int close(int fd);
  virtual int fallocate(int fd, off_t bytes);
  virtual int flock(int fd, int operation);
  virtual int stat(const char* path, struct stat* result);
  virtual int mkdir(const char* path, mode_t mode);
  virtual int rename(const char* from, const char* to);
  virtual int exchange(const char* a, const char* b);  ///< renameat2 with RENAME_EXCHANGE
  virtual int unlink(const char* path);
  virtual int rmdir(const char* path);
};

/// A file system over other calls than the system's. `calls` outlives it.
std::unique_ptr<FileSystem> make_posix_file_system(SystemCalls& calls);

}  // namespace shardkit
