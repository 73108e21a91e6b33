// Local headers and data descriptors: what stands beside each entry's data, held to the directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/io/file_system.h"
#include "shardkit/zip/archive.h"

namespace shardkit::zip {

/// What the directory says of an entry, in 64 bits.
struct DirectoryEntry64 {
  std::string_view name;
  std::uint64_t header_offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  std::uint16_t flags = 0;
  std::size_t record_bytes = 0;  ///< of the directory entry itself
};

/// Reads the local header and the data descriptor of every entry, and checks that they agree with
/// the directory and fill the file from its first byte to the directory, without gap or overlap.
///
/// @param listed     sorted by header_offset
/// @param directory  the directory's offset in the file
/// @error kCorrupt a record disagrees, overlaps or leaves a gap; kIo as read_at()
Result<std::vector<Entry>> read_local_headers(const RandomAccessFile& file,
                                              const std::vector<DirectoryEntry64>& listed,
                                              std::uint64_t directory);

/// @error kCorrupt the entry has a CRC and it is not `found`
Status check_crc(const RandomAccessFile& file, const Entry& entry, std::uint32_t found);

}  // namespace shardkit::zip
