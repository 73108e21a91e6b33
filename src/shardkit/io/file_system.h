// FileSystem: every call that touches a disk, behind one interface that tests can make fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"

namespace shardkit {

/// A file open for reading at any position, from any number of threads at once.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;

  /// The path it was opened by.
  virtual const std::string& path() const = 0;
  /// Bytes when it was opened.
  virtual std::uint64_t size() const = 0;

  /// Fills `out` with the bytes at [offset, offset + out.size()).
  ///
  /// @error kIo the operating system failed, or the file ends before `out` is full (it was
  ///            shortened while it was read); the message names file and offset
  virtual Status read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
  /// A hint: these bytes are read soon, so that the device may fetch them now, many at once. Does
  /// not wait; what goes wrong appears in read_at().
  virtual void will_read(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) const {}
};

/// A file being made. Not visible under its final name until the stage that holds it is published.
class WritableFile {
 public:
  virtual ~WritableFile() = default;

  /// Makes the file this long and takes the room on the disk at once, so that a full disk shows
  /// before the work is done. Where the file system cannot, nothing happens. @error kIo
  virtual Status reserve(std::uint64_t /*bytes*/) { return {}; }
  /// Writes all of `data` at `offset`; threads may write different ranges at once.
  /// @error kIo
  virtual Status write_at(std::uint64_t offset, std::span<const std::byte> data) = 0;
  /// A hint: bytes [offset, offset + bytes) are complete and may go to the device now, so that
  /// sync() has less to wait for. Does not wait; what goes wrong appears in sync().
  virtual void start_writeback(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) {}
  /// Waits until the bytes are on the device.
  virtual Status sync() = 0;
  /// Closes it; write errors that were held back appear here. Later calls are errors.
  virtual Status close() = 0;
};

/// A name that one process holds at a time. Freed when it is destroyed, and by the system when the
/// process dies; the file is then removed, or left for the next holder.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class FileKind { kRegular, kDirectory, kOther };

struct FileInfo {
  FileKind kind = FileKind::kOther;
  std::uint64_t bytes = 0;       ///< of a regular file
  std::int64_t modified_ns = 0;  ///< nanoseconds since 1970
  std::uint64_t device = 0;      ///< equal for two paths of one mounted file system
  std::uint64_t inode = 0;       ///< what stays the same when a name is changed
};

struct DirectoryEntry {
  std::string name;  ///< without the folder
  FileInfo info;     ///< of what a link points to; a dangling link is kOther
  bool is_link = false;
};

/// The disk. Implementations are safe to use from many threads.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// @error kNotFound no such file; kIo it cannot be opened, or is no regular file
  virtual Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path) = 0;
  /// Creates a file that must not exist yet. @error kIo
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  /// Follows links. @error kNotFound, kIo
  virtual Result<FileInfo> info(const std::string& path) = 0;
  /// Opens a file that exists, to write ranges of it anew. @error kNotFound, kIo
  virtual Result<std::unique_ptr<WritableFile>> open_to_write(const std::string& path) = 0;
  /// Creates a file if need be and locks it without waiting; `holder` says, in a line, who has it.
  /// Null where the file system has no locks.
  /// @error kIo another process holds it (the message quotes its line), or it cannot be made
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path,
                                                 std::string_view holder) = 0;
  /// What a folder holds, sorted by name. @error kNotFound, kIo
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path) = 0;
  /// The parent must exist and the path must not. @error kIo
  virtual Status make_directory(const std::string& path) = 0;
  /// Replaces `to` if it is a file or an empty folder. @error kIo
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Swaps two existing names in one step. @error kUnsupported the file system cannot; kIo
  virtual Status exchange(const std::string& a, const std::string& b) = 0;
  /// Removes a file, or a folder with all it holds; links are removed, not followed. A path that
  /// does not exist is success. @error kIo
  virtual Status remove_all(const std::string& path) = 0;
  /// Makes renames and new names in a folder durable. @error kIo
  virtual Status sync_directory(const std::string& path) = 0;
  /// Bytes that an unprivileged user may still write there. @error kIo
  virtual Result<std::uint64_t> free_bytes(const std::string& path) = 0;
};

/// The operating system's own.
FileSystem& posix_file_system();

/// The whole of a small file.
/// @error kLimit it is larger than `limit_bytes`; else as open() and read_at()
Result<std::string> read_whole_file(FileSystem& fs, const std::string& path,
                                    std::uint64_t limit_bytes);

}  // namespace shardkit
