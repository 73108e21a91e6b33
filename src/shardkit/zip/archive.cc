// Reading a zip file from its end: end records, directory, then every local header.
#include "shardkit/zip/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <span>

#include "shardkit/zip/crc32.h"
#include "shardkit/zip/local_headers.h"
#include "shardkit/zip/records.h"

namespace shardkit::zip {
namespace {

constexpr std::uint64_t kMaxCommentBytes = 0xffff;

Error corrupt(std::string what, std::uint64_t offset) {
  return Error(ErrorCode::kCorrupt, "zip: " + std::move(what)).at_offset(offset);
}

Error unsupported(std::string what, std::uint64_t offset) {
  return Error(ErrorCode::kUnsupported, "zip: " + std::move(what)).at_offset(offset);
}

std::span<std::byte> writable_bytes(std::vector<char>& buffer) {
  return std::as_writable_bytes(std::span(buffer));
}

/// Where the directory lies, as the end records say.
struct DirectoryPlace {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

/// The end record is not at the end: says whether bytes were added or are missing.
Error no_end_record(const RandomAccessFile& file, std::uint64_t tail_offset,
                    std::string_view tail) {
  const std::size_t at = tail.rfind(std::string_view("PK\5\6", 4));
  if (at != std::string_view::npos && tail.size() - at > kEndBytes)
    return corrupt("data after the end record", tail_offset + at + kEndBytes)
        .found(fmt::format("{} bytes", tail.size() - at - kEndBytes));
  return corrupt("no end record: the file is cut short or no zip archive", file.size());
}

Result<DirectoryPlace> read_zip64_end(const RandomAccessFile& file, std::uint64_t end_offset,
                                      Record end) {
  std::array<std::byte, kZip64EndBytes + kZip64LocatorBytes> buffer;
  if (end_offset < buffer.size())
    return corrupt("the zip64 end records do not fit before the end record", end_offset);
  const std::uint64_t offset = end_offset - buffer.size();
  SHARDKIT_TRY(file.read_at(offset, buffer));
  const Record zip64{std::span(buffer).first(kZip64EndBytes)};
  const Record locator{std::span(buffer).subspan(kZip64EndBytes)};
  if (locator.u32(4) != 0 || locator.u32(16) > 1 || zip64.u32(16) != 0 || zip64.u32(20) != 0)
    return unsupported("an archive of several disks", offset);
  if (locator.u64(8) != offset || zip64.u32(0) != kZip64EndSignature || zip64.u64(4) != 44)
    return corrupt("the zip64 end record is not where its locator says", offset);
  if (zip64.u64(24) != zip64.u64(32))
    return corrupt("the zip64 end record counts entries in two ways", offset);
  const DirectoryPlace place{zip64.u64(48), zip64.u64(40), zip64.u64(32)};
  const auto agrees = [](std::uint64_t narrow, std::uint64_t saturated, std::uint64_t wide) {
    return narrow == saturated || narrow == wide;
  };
  if (!agrees(end.u16(10), 0xffff, place.entries) || !agrees(end.u16(8), 0xffff, place.entries) ||
      !agrees(end.u32(12), kIn64, place.bytes) || !agrees(end.u32(16), kIn64, place.offset))
    return corrupt("the end record and the zip64 end record disagree", end_offset);
  if (place.offset > offset || place.bytes != offset - place.offset)
    return corrupt("the directory does not reach the zip64 end record", offset)
        .found(fmt::format("{} bytes from {} on", place.bytes, place.offset));
  return place;
}

Result<DirectoryPlace> find_directory(const RandomAccessFile& file) {
  const std::uint64_t size = file.size();
  if (size < kEndBytes) return corrupt("the file is too short for a zip archive", size);
  std::array<std::byte, kEndBytes> buffer;
  const std::uint64_t end_offset = size - kEndBytes;
  SHARDKIT_TRY(file.read_at(end_offset, buffer));
  const Record end(buffer);
  if (end.u32(0) != kEndSignature || end.u16(20) != 0) {
    std::vector<char> tail(std::min<std::uint64_t>(size, kMaxCommentBytes + kEndBytes));
    SHARDKIT_TRY(file.read_at(size - tail.size(), writable_bytes(tail)));
    return no_end_record(file, size - tail.size(), {tail.data(), tail.size()});
  }
  if (end.u16(4) != 0 || end.u16(6) != 0)
    return unsupported("an archive of several disks", end_offset);
  if (end_offset >= kZip64LocatorBytes) {
    std::array<std::byte, 4> signature;
    SHARDKIT_TRY(file.read_at(end_offset - kZip64LocatorBytes, signature));
    if (Record(signature).u32(0) == kZip64LocatorSignature)
      return read_zip64_end(file, end_offset, end);
  }
  const DirectoryPlace place{end.u32(16), end.u32(12), end.u16(10)};
  if (end.u16(8) != end.u16(10))
    return corrupt("the end record counts entries in two ways", end_offset);
  if (place.offset > end_offset || place.bytes != end_offset - place.offset)
    return corrupt("the directory does not reach the end record", end_offset)
        .found(fmt::format("{} bytes from {} on", place.bytes, place.offset));
  return place;
}

/// Why a name may not be used as a path below a folder; empty if it may.
std::string_view fault_of_name(std::string_view name) {
  if (name.empty()) return "an entry without a name";
  if (name.front() == '/') return "an absolute name";
  if (name.find('\0') != std::string_view::npos) return "a name with a zero byte";
  if (name.find('\\') != std::string_view::npos) return "a name with a backslash";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return "a name that leaves its folder";
    begin = end + 1;
  }
  return {};
}

Result<DirectoryEntry64> parse_entry(Record directory, std::size_t at, std::uint64_t offset) {
  if (directory.size() - at < kDirectoryEntryBytes || directory.u32(at) != kDirectorySignature)
    return corrupt("a directory entry is missing", offset);
  const std::uint64_t name_bytes = directory.u16(at + 28);
  const std::uint64_t extra_bytes = directory.u16(at + 30);
  const std::uint64_t comment_bytes = directory.u16(at + 32);
  const std::uint64_t size = kDirectoryEntryBytes + name_bytes + extra_bytes + comment_bytes;
  if (size > directory.size() - at)
    return corrupt("a directory entry leaves the directory", offset);

  DirectoryEntry64 entry;
  entry.record_bytes = static_cast<std::size_t>(size);
  entry.name = directory.text(at + kDirectoryEntryBytes, static_cast<std::size_t>(name_bytes));
  entry.flags = directory.u16(at + 8);
  entry.crc32 = directory.u32(at + 16);
  const auto named = [&entry](Error error) {
    return std::move(error).found(fmt::format("entry '{}'", entry.name));
  };
  if (const auto fault = fault_of_name(entry.name); !fault.empty())
    return named(Error(ErrorCode::kUnsafe, fmt::format("zip: {}", fault)).at_offset(offset));
  if (entry.flags & kEncryptedFlag) return named(unsupported("an encrypted entry", offset));
  if (entry.flags & ~(kDescriptorFlag | kUtf8Flag))
    return named(
        unsupported(fmt::format("an entry with unknown flags {:#06x}", entry.flags), offset));
  if (directory.u16(at + 10) != kStored) return named(unsupported("a compressed entry", offset));
  if (directory.u16(at + 34) != 0) return named(unsupported("an archive of several disks", offset));

  EntryNumbers numbers{directory.u32(at + 24), directory.u32(at + 20), directory.u32(at + 42)};
  const std::string_view extra =
      directory.text(at + kDirectoryEntryBytes + static_cast<std::size_t>(name_bytes),
                     static_cast<std::size_t>(extra_bytes));
  if (!apply_zip64_extra(Record(std::as_bytes(std::span(extra))), numbers))
    return named(
        corrupt("a directory entry's extra fields are broken or lack its 64-bit sizes", offset));
  if (numbers.compressed != numbers.uncompressed)
    return named(corrupt("a stored entry has two sizes", offset));
  entry.bytes = numbers.uncompressed;
  entry.header_offset = numbers.header_offset;
  return entry;
}

}  // namespace

/// Where the entry of this name is, or would be.
std::size_t Archive::slot_of(std::string_view name) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>()(name) & mask;
  while (slots_[slot] != 0 && entries_[slots_[slot] - 1].name != name) slot = (slot + 1) & mask;
  return slot;
}

Status Archive::make_index() {
  slots_.assign(std::bit_ceil(2 * entries_.size() + 1), 0);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::uint32_t& slot = slots_[slot_of(entries_[i].name)];
    if (slot != 0)
      return corrupt("two entries of one name", entries_[i].header_offset)
          .found(fmt::format("entry '{}'", entries_[i].name));
    slot = static_cast<std::uint32_t>(i + 1);  // the directory's limit bounds their number
  }
  return {};
}

const Entry* Archive::find(std::string_view name) const {
  const std::uint32_t found = slots_[slot_of(name)];
  return found == 0 ? nullptr : &entries_[found - 1];
}

Result<Archive> Archive::open(const RandomAccessFile& file) {
  const auto in_file = [&file](Error error) { return std::move(error).in_file(file.path()); };
  auto place = find_directory(file);
  if (!place.ok()) return in_file(std::move(place).error());
  if (place->bytes > kMaxDirectoryBytes)
    return in_file(Error(ErrorCode::kLimit, "zip: the directory is too large")
                       .at_offset(place->offset)
                       .expected(fmt::format("at most {} bytes", kMaxDirectoryBytes))
                       .found(std::to_string(place->bytes)));
  if (place->entries > place->bytes / kDirectoryEntryBytes)
    return in_file(corrupt("more entries than the directory can hold", place->offset)
                       .found(std::to_string(place->entries)));

  Archive archive;
  archive.directory_.resize(static_cast<std::size_t>(place->bytes));
  SHARDKIT_TRY(file.read_at(place->offset, writable_bytes(archive.directory_)));
  const auto directory_bytes = std::as_bytes(std::span(archive.directory_));
  archive.directory_crc_ = crc32(directory_bytes);

  const Record directory(directory_bytes);
  std::vector<DirectoryEntry64> listed;
  listed.reserve(static_cast<std::size_t>(place->entries));
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < place->entries; ++i) {
    auto entry = parse_entry(directory, at, place->offset + at);
    if (!entry.ok()) return in_file(std::move(entry).error());
    at += entry->record_bytes;
    listed.push_back(*std::move(entry));
  }
  if (at != directory.size())
    return in_file(corrupt("the directory holds more than its entries", place->offset + at));

  const auto before = [](const DirectoryEntry64& a, const DirectoryEntry64& b) {
    return a.header_offset < b.header_offset;
  };
  if (!std::is_sorted(listed.begin(), listed.end(), before))
    std::stable_sort(listed.begin(), listed.end(), before);
  auto entries = read_local_headers(file, listed, place->offset);
  if (!entries.ok()) return in_file(std::move(entries).error());
  archive.entries_ = *std::move(entries);
  if (std::any_of(archive.entries_.begin(), archive.entries_.end(),
                  [](const Entry& entry) { return entry.crc32 == 0 && entry.bytes > 0; }))
    archive.directory_crc_ = 0;
  if (Status status = archive.make_index(); !status.ok()) return in_file(std::move(status).error());
  return archive;
}

Result<std::string> read_entry(const RandomAccessFile& file, const Entry& entry,
                               std::uint64_t limit_bytes) {
  if (entry.bytes > limit_bytes)
    return Error(ErrorCode::kLimit, fmt::format("zip: entry '{}' is too large", entry.name))
        .expected(fmt::format("at most {} bytes", limit_bytes))
        .found(std::to_string(entry.bytes))
        .in_file(file.path())
        .at_offset(entry.offset);
  std::string data(static_cast<std::size_t>(entry.bytes), '\0');
  const auto bytes = std::as_writable_bytes(std::span(data));
  SHARDKIT_TRY(file.read_at(entry.offset, bytes));
  SHARDKIT_TRY(check_crc(file, entry, crc32(bytes)));
  return data;
}

Status verify_entry(const RandomAccessFile& file, const Entry& entry) {
  if (entry.crc32 == 0) return {};
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(entry.bytes, 1 << 20)));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < entry.bytes;) {
    const auto block = writable_bytes(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), entry.bytes - done)));
    SHARDKIT_TRY(file.read_at(entry.offset + done, block));
    crc = crc32(block, crc);
    done += block.size();
  }
  return check_crc(file, entry, crc);
}

}  // namespace shardkit::zip
