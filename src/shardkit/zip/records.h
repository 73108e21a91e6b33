// The records of the zip format, as they lie in a file (APPNOTE.TXT 6.3, sections 4.3.7 to 4.3.16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardkit::zip {

inline constexpr std::uint32_t kLocalHeaderSignature = 0x04034b50;
inline constexpr std::uint32_t kDescriptorSignature = 0x08074b50;
inline constexpr std::uint32_t kDirectorySignature = 0x02014b50;
inline constexpr std::uint32_t kZip64EndSignature = 0x06064b50;
inline constexpr std::uint32_t kZip64LocatorSignature = 0x07064b50;
inline constexpr std::uint32_t kEndSignature = 0x06054b50;

inline constexpr std::size_t kLocalHeaderBytes = 30;
inline constexpr std::size_t kDirectoryEntryBytes = 46;
inline constexpr std::size_t kDescriptorBytes = 16;
inline constexpr std::size_t kZip64DescriptorBytes = 24;
inline constexpr std::size_t kZip64EndBytes = 56;
inline constexpr std::size_t kZip64LocatorBytes = 20;
inline constexpr std::size_t kEndBytes = 22;

inline constexpr std::uint16_t kZip64ExtraId = 0x0001;
inline constexpr std::uint16_t kStored = 0;
inline constexpr std::uint16_t kEncryptedFlag = 1u << 0;
inline constexpr std::uint16_t kDescriptorFlag = 1u << 3;  ///< CRC and sizes follow the data
inline constexpr std::uint16_t kUtf8Flag = 1u << 11;
inline constexpr std::uint32_t kIn64 = 0xffffffff;  ///< the value stands in the zip64 extra field

/// Little-endian numbers of a record. REQUIRES: `at` plus the number's size lies inside.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint16_t u16(std::size_t at) const { return static_cast<std::uint16_t>(number(at, 2)); }
  std::uint32_t u32(std::size_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u64(std::size_t at) const { return number(at, 8); }
  std::string_view text(std::size_t at, std::size_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + at, size};
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::uint64_t number(std::size_t at, int bytes) const {
    std::uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
      value = value << 8 | static_cast<std::uint8_t>(bytes_[at + static_cast<std::size_t>(i)]);
    return value;
  }

  std::span<const std::byte> bytes_;
};

/// Sizes and offset of an entry, once the zip64 extra field has been consulted.
struct EntryNumbers {
  std::uint64_t uncompressed = 0;
  std::uint64_t compressed = 0;
  std::uint64_t header_offset = 0;
};

/// Replaces those of `numbers` that are kIn64 by the zip64 extra field's, in its fixed order.
///
/// @return false if the extra fields do not parse, or lack a number that is kIn64, or hold more
inline bool apply_zip64_extra(Record extra, EntryNumbers& numbers) {
  std::size_t at = 0;
  bool found = false;
  while (at + 4 <= extra.size()) {
    const std::uint16_t id = extra.u16(at);
    const std::size_t size = extra.u16(at + 2);
    at += 4;
    if (size > extra.size() - at) return false;
    if (id == kZip64ExtraId) {
      if (found) return false;
      found = true;
      std::size_t used = 0;
      for (std::uint64_t* number :
           {&numbers.uncompressed, &numbers.compressed, &numbers.header_offset}) {
        if (*number != kIn64) continue;
        if (used + 8 > size) return false;
        *number = extra.u64(at + used);
        used += 8;
      }
      if (used != size) return false;
    }
    at += size;
  }
  if (at != extra.size()) return false;
  return found || (numbers.uncompressed != kIn64 && numbers.compressed != kIn64 &&
                   numbers.header_offset != kIn64);
}

}  // namespace shardkit::zip
