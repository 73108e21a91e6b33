// Makes, maps and removes POSIX shared memory.
#include "shardkit/state/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "shardkit/base/random_number.h"

namespace shardkit {
namespace {

constexpr std::string_view kPrefix = "/shardkit-";

class FileDescriptor {
 public:
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

Error system_error(ErrorCode code, std::string_view what, std::string_view name, int number) {
  return Error(code, fmt::format("{}: {}", what, std::generic_category().message(number)))
      .in_file(name)
      .from_system(number);
}

Error not_created(std::string_view name, int number) {
  const bool full = number == ENOSPC || number == ENOMEM || number == EFBIG;
  return full ? system_error(ErrorCode::kLimit, "no room for shared memory", name, number)
              : system_error(ErrorCode::kIo, "cannot create shared memory", name, number);
}

// What lies behind a name of ours is memory of this library's making.
bool is_name_of_ours(std::string_view name) {
  return name.starts_with(kPrefix) && name.size() <= 255 &&
         name.find_first_not_of("0123456789abcdef-", kPrefix.size()) == std::string_view::npos;
}

}  // namespace

Result<SharedMemory> SharedMemory::create(std::uint64_t bytes) {
  SHARDKIT_ASSIGN(const std::uint64_t number, random_number());
  const pid_t owner = ::getpid();
  std::string name = fmt::format("{}{}-{:016x}", kPrefix, owner, number);
  const FileDescriptor file(::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.number() < 0) return not_created(name, errno);
  SharedMemory memory(std::move(name), bytes, owner);
  if (bytes > static_cast<std::uint64_t>(INT64_MAX)) return not_created(memory.name_, EFBIG);
  int result = 0;
  if (bytes > 0) do {
      result = ::posix_fallocate(file.number(), 0, static_cast<off_t>(bytes));
    } while (result == EINTR);
  if (result != 0) return not_created(memory.name_, result);
  SHARDKIT_TRY(memory.map(file.number()));
  return memory;
}

Result<SharedMemory> SharedMemory::open(const std::string& name, std::uint64_t bytes) {
  if (!is_name_of_ours(name))
    return Error(ErrorCode::kInvalidArgument, "this names no shared memory of shardkit's")
        .in_file(name);
  const FileDescriptor file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (file.number() < 0 && errno == ENOENT)
    return Error(ErrorCode::kNotFound, "no process owns shared memory of this name").in_file(name);
  struct stat info {};
  if (file.number() < 0 || ::fstat(file.number(), &info) != 0)
    return system_error(ErrorCode::kIo, "cannot open shared memory", name, errno);
  if (static_cast<std::uint64_t>(info.st_size) != bytes)
    return Error(ErrorCode::kInvalidArgument, "the shared memory has another size")
        .in_file(name)
        .expected(fmt::format("{} bytes", bytes))
        .found(fmt::format("{} bytes", info.st_size));
  SharedMemory memory(name, bytes, 0);
  SHARDKIT_TRY(memory.map(file.number()));
  return memory;
}

Status SharedMemory::map(int file) {
  if (bytes_ == 0) return {};
  void* data = ::mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED,
                      file, 0);
  if (data == MAP_FAILED)
    return system_error(ErrorCode::kLimit, "no addresses for shared memory", name_, errno);
  data_ = static_cast<std::byte*>(data);
  return {};
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : name_(std::move(other.name_)),
      bytes_(other.bytes_),
      data_(std::exchange(other.data_, nullptr)),
      owner_(std::exchange(other.owner_, 0)) {}

SharedMemory::~SharedMemory() {
  if (data_) ::munmap(data_, static_cast<std::size_t>(bytes_));
  if (owner_ != 0 && owner_ == ::getpid()) ::shm_unlink(name_.c_str());
}

}  // namespace shardkit
