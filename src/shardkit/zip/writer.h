// Writer: makes a zip file of stored entries, laid out as PyTorch's own writer lays them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit::zip {

/// Appends entries to a new file; finish() writes the directory. Data begins at multiples of the
/// alignment, headers leave CRC and sizes to a data descriptor, and numbers beyond 32 bits go to
/// zip64 fields (PyTorch 2.13, caffe2/serialize/inline_container.cc).
class Writer {
 public:
  /// Fills `out` with the entry's bytes from `offset` on; called in ascending order.
  using Fill = std::function<Status(std::uint64_t offset, std::span<std::byte> out)>;

  /// @param file       empty; must outlive the writer
  /// @param alignment  bytes, 1 to 65536
  explicit Writer(WritableFile& file, std::uint64_t alignment = 64)
      : file_(file), alignment_(alignment) {}

  /// Adds an entry whose bytes are at hand. @error kIo
  Status add(std::string_view name, std::string_view data);
  /// Adds an entry whose bytes come 1 MiB at a time. @error kIo, and what `fill` returns
  Status add(std::string_view name, std::uint64_t bytes, const Fill& fill);
  /// Adds an entry that is a hole in the file: zeros that take no room on the disk, CRC not
  /// recorded. @error kIo
  Status add_hole(std::string_view name, std::uint64_t bytes);
  /// Writes directory and end records. Nothing may be added afterwards. @error kIo
  Status finish();

 private:
  struct Added {
    std::string name;
    std::uint64_t header_offset;
    std::uint64_t bytes;
    std::uint32_t crc32;
  };

  Status begin(std::string_view name, std::uint64_t bytes);
  Status end(std::uint32_t crc);
  Status append(std::string_view data);

  WritableFile& file_;
  std::uint64_t alignment_;
  std::uint64_t position_ = 0;
  std::vector<Added> added_;
};

}  // namespace shardkit::zip
