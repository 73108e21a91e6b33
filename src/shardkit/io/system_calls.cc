#include "shardkit/io/system_calls.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>

namespace shardkit {

int SystemCalls::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}

ssize_t SystemCalls::pread(int fd, void* data, std::size_t bytes, off_t offset) {
  return ::pread(fd, data, bytes, offset);
}

ssize_t SystemCalls::pwrite(int fd, const void* data, std::size_t bytes, off_t offset) {
  return ::pwrite(fd, data, bytes, offset);
}

int SystemCalls::fsync(int fd) { return ::fsync(fd); }

int SystemCalls::close(int fd) { return ::close(fd); }

int SystemCalls::fallocate(int fd, off_t bytes) { return ::fallocate(fd, 0, 0, bytes); }

int SystemCalls::flock(int fd, int operation) { return ::flock(fd, operation); }

int SystemCalls::stat(const char* path, struct stat* result) { return ::stat(path, result); }

int SystemCalls::mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }

int SystemCalls::rename(const char* from, const char* to) { return ::rename(from, to); }

int SystemCalls::exchange(const char* a, const char* b) {
  return ::renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

int SystemCalls::unlink(const char* path) { return ::unlink(path); }

int SystemCalls::rmdir(const char* path) { return ::rmdir(path); }

}  // namespace shardkit
