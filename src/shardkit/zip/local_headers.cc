#include "shardkit/zip/local_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "shardkit/zip/records.h"

namespace shardkit::zip {
namespace {

Error corrupt(std::string_view what, const DirectoryEntry64& entry, std::uint64_t offset) {
  return Error(ErrorCode::kCorrupt, fmt::format("zip: {}", what))
      .at_offset(offset)
      .found(fmt::format("entry '{}'", entry.name));
}

/// Small reads that mostly lie close together: one read serves an entry's data descriptor and the
/// next local header. No more than that, since the pages behind are payload that nobody needs.
class Window {
 public:
  static constexpr std::uint64_t kAheadBytes = 512;

  /// No read goes beyond `end`.
  Window(const RandomAccessFile& file, std::uint64_t end) : file_(file), end_(end) {}

  /// REQUIRES: offset + bytes <= end. The result lives until the next call.
  Result<Record> read(std::uint64_t offset, std::size_t bytes) {
    if (offset < begin_ || offset + bytes > begin_ + buffer_.size()) {
      const std::uint64_t ahead = std::max<std::uint64_t>(bytes, kAheadBytes);
      buffer_.resize(static_cast<std::size_t>(std::min(ahead, end_ - offset)));
      begin_ = offset;
      SHARDKIT_TRY(file_.read_at(offset, buffer_));
    }
    return Record(std::span<const std::byte>(buffer_).subspan(
        static_cast<std::size_t>(offset - begin_), bytes));
  }

 private:
  const RandomAccessFile& file_;
  std::uint64_t end_;
  std::uint64_t begin_ = 0;
  std::vector<std::byte> buffer_;
};

/// CRC and sizes in a local header are what the directory says; where a data descriptor follows the
/// data, they may also be left zero (PyTorch does).
Status check_numbers(Record header, std::string_view extra, const DirectoryEntry64& entry) {
  const std::uint32_t crc = header.u32(14);
  EntryNumbers numbers{header.u32(22), header.u32(18), 0};
  const bool described = entry.flags & kDescriptorFlag;
  if (described && crc == 0 && numbers.compressed == 0 && numbers.uncompressed == 0) return {};
  const bool wide = numbers.compressed == kIn64 || numbers.uncompressed == kIn64;
  if (wide && !apply_zip64_extra(Record(std::as_bytes(std::span(extra))), numbers))
    return corrupt("a local header's extra fields are broken or lack its 64-bit sizes", entry,
                   entry.header_offset);
  if (crc != entry.crc32 || numbers.compressed != entry.bytes ||
      numbers.uncompressed != entry.bytes)
    return corrupt("size or CRC of a local header is not the directory's", entry,
                   entry.header_offset);
  return {};
}

/// @return where the entry's data begins
Result<std::uint64_t> read_header(Window& window, const DirectoryEntry64& entry,
                                  std::uint64_t end) {
  const std::uint64_t offset = entry.header_offset;
  const std::uint64_t room = end - offset;
  if (room < kLocalHeaderBytes) return corrupt("a local header has no room", entry, offset);
  SHARDKIT_ASSIGN(const Record fixed, window.read(offset, kLocalHeaderBytes));
  if (fixed.u32(0) != kLocalHeaderSignature)
    return corrupt("no local header where the directory says", entry, offset);
  if (fixed.u16(6) != entry.flags || fixed.u16(8) != kStored)
    return corrupt("flags or method of a local header are not the directory's", entry, offset);
  const std::size_t name_bytes = fixed.u16(26);
  const std::size_t extra_bytes = fixed.u16(28);
  const std::size_t header_bytes = kLocalHeaderBytes + name_bytes + extra_bytes;
  if (name_bytes != entry.name.size())
    return corrupt("the name in a local header is not the directory's", entry, offset);
  if (room < header_bytes || room - header_bytes < entry.bytes)
    return corrupt("an entry overlaps what follows it", entry, offset);
  SHARDKIT_ASSIGN(const Record header, window.read(offset, header_bytes));
  if (header.text(kLocalHeaderBytes, name_bytes) != entry.name)
    return corrupt("the name in a local header is not the directory's", entry, offset);
  SHARDKIT_TRY(
      check_numbers(header, header.text(kLocalHeaderBytes + name_bytes, extra_bytes), entry));
  return offset + header_bytes;
}

/// Between an entry's data and what follows it lies its data descriptor, or nothing.
Status check_descriptor(Window& window, const DirectoryEntry64& entry, std::uint64_t data_end,
                        std::uint64_t next) {
  const std::uint64_t gap = next - data_end;
  const bool described = entry.flags & kDescriptorFlag;
  // PyTorch's miniz sets the flag of an empty entry too, but writes no descriptor for it.
  if (gap == 0 && (!described || entry.bytes == 0)) return {};
  if (!described || (gap != kDescriptorBytes && gap != kZip64DescriptorBytes))
    return corrupt("bytes that belong to no entry", entry, data_end)
        .expected(described ? "a data descriptor" : "the next entry");
  const bool wide = gap == kZip64DescriptorBytes;
  SHARDKIT_ASSIGN(const Record record, window.read(data_end, static_cast<std::size_t>(gap)));
  if (record.u32(0) != kDescriptorSignature || record.u32(4) != entry.crc32 ||
      (wide ? record.u64(8) : record.u32(8)) != entry.bytes ||
      (wide ? record.u64(16) : record.u32(12)) != entry.bytes)
    return corrupt("an entry's data descriptor is not the directory's", entry, data_end);
  return {};
}

/// Local headers lie far apart, and a disk that fetches them one after another takes a millisecond
/// for each: those of the next entries are asked for while an entry is checked.
void announce(const RandomAccessFile& file, const DirectoryEntry64& entry) {
  const std::uint64_t descriptor = std::min(entry.header_offset, kZip64DescriptorBytes);
  file.will_read(entry.header_offset - descriptor, Window::kAheadBytes);
}

}  // namespace

Result<std::vector<Entry>> read_local_headers(const RandomAccessFile& file,
                                              const std::vector<DirectoryEntry64>& listed,
                                              std::uint64_t directory) {
  std::vector<Entry> entries;
  entries.reserve(listed.size());
  Window window(file, directory);
  if ((listed.empty() ? directory : listed.front().header_offset) != 0)
    return Error(ErrorCode::kCorrupt, "zip: data before the first entry").at_offset(0);
  if (!listed.empty() && listed.back().header_offset >= directory)
    return corrupt("an entry lies in or after the directory", listed.back(),
                   listed.back().header_offset);
  constexpr std::size_t kAnnounced = 2048;  // entries
  std::size_t announced = 0;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    for (; announced < std::min(listed.size(), i + kAnnounced); ++announced)
      announce(file, listed[announced]);
    const DirectoryEntry64& entry = listed[i];
    const std::uint64_t next = i + 1 < listed.size() ? listed[i + 1].header_offset : directory;
    SHARDKIT_ASSIGN(const std::uint64_t data, read_header(window, entry, next));
    SHARDKIT_TRY(check_descriptor(window, entry, data + entry.bytes, next));
    entries.push_back({entry.name, entry.header_offset, data, entry.bytes, entry.crc32});
  }
  return entries;
}

Status check_crc(const RandomAccessFile& file, const Entry& entry, std::uint32_t found) {
  if (entry.crc32 == 0 || entry.crc32 == found) return {};
  return Error(ErrorCode::kCorrupt,
               fmt::format("the CRC of '{}' does not fit its data", entry.name))
      .expected(fmt::format("{:08x}", entry.crc32))
      .found(fmt::format("{:08x}", found))
      .in_file(file.path())
      .at_offset(entry.offset);
}

}  // namespace shardkit::zip
