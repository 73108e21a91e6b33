// The operating system's files behind the FileSystem interface.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "shardkit/io/file_system.h"

namespace shardkit {
namespace {

Error os_error(std::string_view action, const std::string& path, int number) {
  const ErrorCode code = number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return Error(code, fmt::format("cannot {}: {}", action,
                                 std::generic_category().message(number)))
      .in_file(path)
      .from_system(number);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class PosixRandomAccessFile final : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, int fd, std::uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }

  Status read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
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

 private:
  std::string path_;
  Descriptor fd_;
  std::uint64_t size_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  Status reserve(std::uint64_t bytes) override {
    if (bytes == 0) return {};
    // Not posix_fallocate(), which writes zeros where the file system cannot.
    while (::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
      if (errno == EINTR) continue;
      if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return {};
      return os_error("make room for", path_, errno);
    }
    return {};
  }

  Status write_at(std::uint64_t offset, std::span<const std::byte> data) override {
    while (!data.empty()) {
      const ssize_t put = ::pwrite(fd_.get(), data.data(), data.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return os_error("write", path_, errno).at_offset(offset);
      offset += static_cast<std::uint64_t>(put);
      data = data.subspan(static_cast<std::size_t>(put));
    }
    return {};
  }

  void start_writeback(std::uint64_t offset, std::uint64_t bytes) override {
    // Not every file system knows how; sync() is what counts.
    [[maybe_unused]] const int ignored =
        ::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                          SYNC_FILE_RANGE_WRITE);
  }

  Status sync() override {
    while (::fsync(fd_.get()) != 0)
      if (errno != EINTR) return os_error("sync", path_, errno);
    return {};
  }

  Status close() override {
    // On Linux the descriptor is gone whatever close() says, so it is never tried twice.
    if (::close(fd_.release()) != 0 && errno != EINTR) return os_error("close", path_, errno);
    return {};
  }

 private:
  std::string path_;
  Descriptor fd_;
};

FileInfo to_info(const struct stat& st) {
  FileInfo info;
  info.kind = S_ISREG(st.st_mode)   ? FileKind::kRegular
              : S_ISDIR(st.st_mode) ? FileKind::kDirectory
                                    : FileKind::kOther;
  info.bytes = info.kind == FileKind::kRegular ? static_cast<std::uint64_t>(st.st_size) : 0;
  info.modified_ns = static_cast<std::int64_t>(st.st_mtim.tv_sec) * 1'000'000'000 + st.st_mtim.tv_nsec;
  info.device = static_cast<std::uint64_t>(st.st_dev);
  return info;
}

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<RandomAccessFile>> open(const std::string& path) override {
    // O_NONBLOCK: opening a FIFO must not wait for a writer. It means nothing to regular files.
    Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return os_error("open", path, errno);
    struct stat st {};
    if (::fstat(fd.get(), &st) != 0) return os_error("examine", path, errno);
    if (!S_ISREG(st.st_mode)) return Error(ErrorCode::kIo, "not a regular file").in_file(path);
    const FileInfo info = to_info(st);
    return std::make_unique<PosixRandomAccessFile>(path, fd.release(), info.bytes);
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return os_error("create", path, errno);
    return std::make_unique<PosixWritableFile>(path, fd);
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat st {};
    if (::stat(path.c_str(), &st) != 0) {
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
      if (struct stat st {}; ::stat(it->path().c_str(), &st) == 0) entry.info = to_info(st);
      entries.push_back(std::move(entry));
    }
    if (error) return os_error("list the folder", path, error.value());
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }

  Status make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) return os_error("make the folder", path, errno);
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0)
      return os_error(fmt::format("rename '{}'", from), to, errno);
    return {};
  }

  Status exchange(const std::string& a, const std::string& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return {};
    if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP)
      return Error(ErrorCode::kUnsupported, "the file system cannot exchange two names").in_file(b);
    return os_error(fmt::format("exchange '{}'", a), b, errno);
  }

  Status remove_all(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) return os_error("remove", path, error.value());
    return {};
  }

  Status sync_directory(const std::string& path) override {
    Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return os_error("open the folder", path, errno);
    // Some network file systems cannot sync a folder and say EINVAL; their renames are durable or
    // nothing can make them so.
    if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
      return os_error("sync the folder", path, errno);
    return {};
  }

  Result<std::uint64_t> free_bytes(const std::string& path) override {
    struct statvfs st {};
    if (::statvfs(path.c_str(), &st) != 0) return os_error("examine the disk of", path, errno);
    return static_cast<std::uint64_t>(st.f_bavail) * static_cast<std::uint64_t>(st.f_frsize);
  }
};

}  // namespace

FileSystem& posix_file_system() {
  static PosixFileSystem file_system;
  return file_system;
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
