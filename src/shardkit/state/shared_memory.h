// SharedMemory: a run of POSIX shared memory, which other processes of the machine map by its name.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "shardkit/base/result.h"

namespace shardkit {

/// One mapping of a run of shared memory into this process (shm_overview(7)). Moved, not copied.
///
/// **Names.** The process that creates a run owns its name and removes it when the object is
/// destroyed; processes that have opened it keep their mappings, whose bytes live as long as the
/// last of them. An opened run never removes the name, nor does a child that a fork() made. Only a
/// process that is killed leaves its names behind, each with its process id in it, in /dev/shm.
///
/// **Access.** Only processes of the same user may open a run. Who writes when is for the processes
/// to agree on; nothing is locked here.
class SharedMemory {
 public:
  /// A fresh run of zeros. Its room is taken at once, so that a full /dev/shm is an error here and
  /// not a signal at the first write.
  ///
  /// @error kLimit there is no room for so many bytes; kIo the system failed otherwise
  static Result<SharedMemory> create(std::uint64_t bytes);

  /// Maps a run that another process, or this one, has created.
  ///
  /// @param name   from name()
  /// @param bytes  as the owner has it; a run of another size is refused
  /// @error kInvalidArgument no name that create() makes, or another size; kNotFound nobody owns
  ///        the name (any more); kIo the system failed, or the run is another user's
  static Result<SharedMemory> open(const std::string& name, std::uint64_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  /// "/shardkit-PID-NUMBER": for open(), in whatever way it reaches the other process.
  const std::string& name() const { return name_; }
  std::uint64_t bytes() const { return bytes_; }
  /// The first byte, at the start of a page; null if there are none.
  std::byte* data() const { return data_; }

 private:
  SharedMemory(std::string name, std::uint64_t bytes, pid_t owner)
      : name_(std::move(name)), bytes_(bytes), owner_(owner) {}
  Status map(int file);

  std::string name_;
  std::uint64_t bytes_;
  std::byte* data_ = nullptr;
  pid_t owner_;  // the process that removes the name; 0: none
};

}  // namespace shardkit
