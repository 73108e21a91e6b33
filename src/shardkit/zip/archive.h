// Archive: the entries of a zip file of stored (not compressed) entries, read from its directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"

namespace shardkit::zip {

/// One entry: a named range of the file.
struct Entry {
  std::string_view name;            ///< points into the Archive
  std::uint64_t header_offset = 0;  ///< of the local header
  std::uint64_t offset = 0;         ///< of the first data byte
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;  ///< 0: not recorded (torch.serialization.set_crc32_options(False))
};

/// The directory of a zip file. Holds no file open; immutable, and safe to use from many threads.
///
/// An archive is accepted only if every byte of the file is accounted for: local headers, data and
/// data descriptors lie one after another without a gap from the first byte to the directory, each
/// agrees with the directory, and the end records follow it to the last byte. So no two readers can
/// see different entries in it. docs/formats/zip.md has the rules.
class Archive {
 public:
  /// Reads the directory and every local header; no data. Takes about one small read an entry, or
  /// one for some small neighbours. Memory: the directory's size and about 120 bytes an entry.
  ///
  /// @error kCorrupt the file is no zip archive, is cut short, or its parts contradict each other;
  ///        kUnsafe an entry's name leaves the folder it would be unpacked to;
  ///        kUnsupported compressed or encrypted entries, several disks;
  ///        kLimit the directory exceeds kMaxDirectoryBytes; kIo as read_at().
  ///        All name the file and a byte offset.
  static Result<Archive> open(const RandomAccessFile& file);

  static constexpr std::uint64_t kMaxDirectoryBytes = 256u << 20;

  Archive(Archive&&) = default;
  Archive& operator=(Archive&&) = default;
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  /// In the order of their place in the file.
  const std::vector<Entry>& entries() const { return entries_; }
  /// Null if there is none of this name.
  const Entry* find(std::string_view name) const;
  /// CRC-32 of the directory's bytes. They hold name, size, place and CRC of every entry, so this
  /// tells cheaply whether two files hold the same. 0 where an entry's CRC is not recorded: then it
  /// would not tell.
  std::uint32_t directory_crc() const { return directory_crc_; }

 private:
  Archive() = default;

  std::size_t slot_of(std::string_view name) const;
  Status make_index();

  std::vector<char> directory_;  // names point into it; a move keeps its address
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // open hash table: index into entries_ plus 1; 0: free
  std::uint32_t directory_crc_ = 0;
};

/// The data of a small entry; its CRC is checked if one is recorded.
///
/// @param limit_bytes  most bytes to read
/// @error kLimit the entry is larger; kCorrupt the CRC differs; kIo as read_at()
Result<std::string> read_entry(const RandomAccessFile& file, const Entry& entry,
                               std::uint64_t limit_bytes);

/// Reads an entry of any size, 1 MiB at a time, and checks its CRC if one is recorded.
///
/// @error kCorrupt the CRC differs; kIo as read_at()
Status verify_entry(const RandomAccessFile& file, const Entry& entry);

}  // namespace shardkit::zip
