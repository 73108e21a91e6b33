// The operating system's files behind the FileSystem interface.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "shardkit/io/file_system.h"
#include "shardkit/io/path.h"
#include "shardkit/io/system_calls.h"

namespace shardkit {
namespace {

Error os_error(std::string_view action, const std::string& path, int number) {
  const ErrorCode code = number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Error(code, fmt::format("cannot {}: {}", action, std::generic_category().message(number)))
      .in_file(path)
      .from_system(number);
}

class Descriptor {
 public:
  Descriptor(SystemCalls& calls, int fd) : calls_(&calls), fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) calls_->close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept
      : calls_(other.calls_), fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  SystemCalls& calls() const { return *calls_; }
  int get() const { return fd_; }
  int close() { return calls_->close(std::exchange(fd_, -1)); }

 private:
  SystemCalls* calls_;
  int fd_;
};

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, Descriptor fd, std::uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }

  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t got =
          fd_.calls().pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return os_error("read", path_, errno).at_offset(offset);
      if (got == 0)
        return Error(ErrorCode::kIo, "the file ends too early; it may have been cut while read")
            .in_file(path_)
            .at_offset(offset)
            .expected(fmt::format("{} more bytes", out.size()));
      offset += static_cast<std::uint64_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

  void will_read(std::uint64_t offset, std::uint64_t bytes) const override {
    static_cast<void>(::posix_fadvise(fd_.get(), static_cast<off_t>(offset),
                                      static_cast<off_t>(bytes), POSIX_FADV_WILLNEED));
  }

 private:
  std::string path_;
  Descriptor fd_;
  std::uint64_t size_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Status reserve(std::uint64_t bytes) override {
    if (bytes == 0) return {};
    // Not posix_fallocate(), which writes zeros where the file system cannot.
    while (fd_.calls().fallocate(fd_.get(), static_cast<off_t>(bytes)) != 0) {
      if (errno == EINTR) continue;
      if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return {};
      return os_error("make room for", path_, errno);
    }
    return {};
  }

  Status write_at(std::uint64_t offset, std::span<const std::byte> data) override {
    while (!data.empty()) {
      const ssize_t put =
          fd_.calls().pwrite(fd_.get(), data.data(), data.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return os_error("write", path_, errno).at_offset(offset);
      if (put == 0)  // trying again would never end
        return Error(ErrorCode::kIo, "the system writes no more bytes, and does not say why")
            .in_file(path_)
            .at_offset(offset);
      offset += static_cast<std::uint64_t>(put);
      data = data.subspan(static_cast<std::size_t>(put));
    }
    return {};
  }

  void start_writeback(std::uint64_t offset, std::uint64_t bytes) override {
    // Not every file system knows how; sync() is what counts.
    [[maybe_unused]] const int ignored = ::sync_file_range(
        fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
  }

  Status sync() override {
    while (fd_.calls().fsync(fd_.get()) != 0)
      if (errno != EINTR) return os_error("sync", path_, errno);
    return {};
  }

  Status close() override {
    // On Linux the descriptor is gone whatever close() says, so it is never tried twice.
    if (fd_.close() != 0 && errno != EINTR) return os_error("close", path_, errno);
    return {};
  }

 private:
  std::string path_;
  Descriptor fd_;
};

class PosixFileLock final : public FileLock {
 public:
  PosixFileLock(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  // Removed while it is still held, so that nobody can hold a file that has no name.
  ~PosixFileLock() override { fd_.calls().unlink(path_.c_str()); }

 private:
  std::string path_;
  Descriptor fd_;
};

/// Whether the name still leads to the open file: its last holder removes it.
bool leads_to(const std::string& path, int fd) {
  struct stat named {
  }, open{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &open) == 0 &&
         named.st_ino == open.st_ino && named.st_dev == open.st_dev;
}

std::string first_line(int fd) {
  std::array<char, 256> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  const std::string_view all(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  return std::string(all.substr(0, all.find('\n')));
}

FileInfo to_info(const struct stat& st) {
  FileInfo info;
  info.kind = S_ISREG(st.st_mode)   ? FileKind::kRegular
              : S_ISDIR(st.st_mode) ? FileKind::kDirectory
                                    : FileKind::kOther;
  info.bytes = info.kind == FileKind::kRegular ? static_cast<std::uint64_t>(st.st_size) : 0;
  info.modified_ns =
      static_cast<std::int64_t>(st.st_mtim.tv_sec) * 1'000'000'000 + st.st_mtim.tv_nsec;
  info.device = static_cast<std::uint64_t>(st.st_dev);
  info.inode = static_cast<std::uint64_t>(st.st_ino);
  return info;
}

class PosixFileSystem final : public FileSystem {
 public:
  explicit PosixFileSystem(SystemCalls& calls) : calls_(calls) {}

  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path) override {
    // O_NONBLOCK: opening a FIFO must not wait for a writer. It means nothing to regular files.
    Descriptor fd = open_descriptor(path, O_RDONLY | O_NONBLOCK);
    if (fd.get() < 0) return os_error("open", path, errno);
    struct stat st {};
    if (::fstat(fd.get(), &st) != 0) return os_error("examine", path, errno);
    if (!S_ISREG(st.st_mode)) return Error(ErrorCode::kIo, "not a regular file").in_file(path);
    return std::make_unique<PosixRandomAccessFile>(path, std::move(fd), to_info(st).bytes);
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    Descriptor fd = open_descriptor(path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd.get() < 0) return os_error("create", path, errno);
    return std::make_unique<PosixWritableFile>(path, std::move(fd));
  }

  Result<std::unique_ptr<WritableFile>> open_to_write(const std::string& path) override {
    Descriptor fd = open_descriptor(path, O_WRONLY | O_NOFOLLOW);
    if (fd.get() < 0) return os_error("open", path, errno);
    return std::make_unique<PosixWritableFile>(path, std::move(fd));
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path,
                                         std::string_view holder) override {
    constexpr int kTries = 100;  // each lost try means that another holder ended in between
    for (int i = 0; i < kTries; ++i) {
      Descriptor open = open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW);
      const int fd = open.get();
      if (fd < 0) return os_error("make the lock", path, errno);
      if (calls_.flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
          return Error(ErrorCode::kIo, "another merge is writing this target")
              .in_file(path)
              .found(first_line(fd));
        if (errno == ENOTSUP || errno == ENOLCK || errno == ENOSYS || errno == EINVAL) {
          calls_.unlink(path.c_str());
          return std::unique_ptr<FileLock>();
        }
        return os_error("lock", path, errno);
      }
      if (!leads_to(path, fd)) continue;
      auto lock = std::make_unique<PosixFileLock>(path, std::move(open));
      // The line is for people; the lock holds without it, on a full disk for instance.
      const std::string line = std::string(holder) + "\n";
      if (::ftruncate(fd, 0) == 0) calls_.pwrite(fd, line.data(), line.size(), 0);
      return lock;
    }
    return Error(ErrorCode::kIo, "the lock is removed again and again; other merges come and go")
        .in_file(path);
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat st {};
    if (calls_.stat(path.c_str(), &st) != 0) {
      // A path below a regular file does not exist either.
      return os_error("find", path, errno == ENOTDIR ? ENOENT : errno);
    }
    return to_info(st);
  }

  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    std::vector<DirectoryEntry> entries;
    std::error_code error;
    std::filesystem::directory_iterator it(path, error);
    for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
      DirectoryEntry entry;
      entry.name = it->path().filename().string();
      if (struct stat st{}; calls_.stat(it->path().c_str(), &st) == 0) entry.info = to_info(st);
      std::error_code ignored;
      entry.is_link = it->is_symlink(ignored);
      entries.push_back(std::move(entry));
    }
    if (error) return os_error("list the folder", path, error.value());
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }

  Status make_directory(const std::string& path) override {
    if (calls_.mkdir(path.c_str(), 0777) != 0) return os_error("make the folder", path, errno);
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (calls_.rename(from.c_str(), to.c_str()) != 0)
      return os_error(fmt::format("rename '{}'", from), to, errno);
    return {};
  }

  Status exchange(const std::string& a, const std::string& b) override {
    if (calls_.exchange(a.c_str(), b.c_str()) == 0) return {};
    if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP)
      return Error(ErrorCode::kUnsupported, "the file system cannot exchange two names").in_file(b);
    return os_error(fmt::format("exchange '{}'", a), b, errno);
  }

  Status remove_all(const std::string& path) override {
    if (calls_.unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return {};
    // Linux says EISDIR, POSIX EPERM.
    if (errno != EISDIR && errno != EPERM) return os_error("remove", path, errno);
    SHARDKIT_ASSIGN(const auto entries, list(path));
    for (const DirectoryEntry& entry : entries)
      SHARDKIT_TRY(remove_all(join_path(path, entry.name)));
    if (calls_.rmdir(path.c_str()) != 0 && errno != ENOENT) return os_error("remove", path, errno);
    return {};
  }

  Status sync_directory(const std::string& path) override {
    Descriptor fd = open_descriptor(path, O_RDONLY | O_DIRECTORY);
    if (fd.get() < 0) return os_error("open the folder", path, errno);
    // Some network file systems cannot sync a folder and say EINVAL; their renames are durable or
    // nothing can make them so.
    if (calls_.fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
      return os_error("sync the folder", path, errno);
    return {};
  }

  Result<std::uint64_t> free_bytes(const std::string& path) override {
    struct statvfs st {};
    if (::statvfs(path.c_str(), &st) != 0) return os_error("examine the disk of", path, errno);
    return static_cast<std::uint64_t>(st.f_bavail) * static_cast<std::uint64_t>(st.f_frsize);
  }

 private:
  Descriptor open_descriptor(const std::string& path, int flags) {
    return {calls_, calls_.open(path.c_str(), flags | O_CLOEXEC, 0666)};
  }

  SystemCalls& calls_;
};

}  // namespace

FileSystem& posix_file_system() {
  static SystemCalls calls;
  static PosixFileSystem file_system(calls);
  return file_system;
}

std::unique_ptr<FileSystem> make_posix_file_system(SystemCalls& calls) {
  return std::make_unique<PosixFileSystem>(calls);
}

Result<std::string> read_whole_file(FileSystem& fs, const std::string& path,
                                    std::uint64_t limit_bytes) {
  SHARDKIT_ASSIGN(const auto file, fs.open(path));
  if (file->size() > limit_bytes)
    return Error(ErrorCode::kLimit, "the file is larger than expected for its kind")
        .in_file(path)
        .expected(fmt::format("at most {} bytes", limit_bytes))
        .found(fmt::format("{} bytes", file->size()));
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  SHARDKIT_TRY(file->read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace shardkit
