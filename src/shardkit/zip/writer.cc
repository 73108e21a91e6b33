#include "shardkit/zip/writer.h"

#include <algorithm>
#include <initializer_list>

#include "shardkit/zip/crc32.h"
#include "shardkit/zip/records.h"

namespace shardkit::zip {
namespace {

constexpr std::uint16_t kFlags = kDescriptorFlag | kUtf8Flag;
constexpr std::uint64_t kBlockBytes = 1 << 20;
// How PyTorch fills up to the alignment: an extra field of this id, its data all 'Z'.
constexpr std::string_view kPaddingId = "FB";

void put(std::string& out, int bytes, std::uint64_t value) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

bool is_wide(std::uint64_t number) { return number >= kIn64; }

std::uint64_t narrow(std::uint64_t number) { return is_wide(number) ? kIn64 : number; }

/// The zip64 extra field of those numbers that need it.
std::string zip64_extra(std::initializer_list<std::uint64_t> numbers) {
  std::string fields;
  for (const std::uint64_t number : numbers)
    if (is_wide(number)) put(fields, 8, number);
  if (fields.empty()) return fields;
  std::string extra;
  put(extra, 2, kZip64ExtraId);
  put(extra, 2, fields.size());
  return extra + fields;
}

}  // namespace

Status Writer::append(std::string_view data) {
  SHARDKIT_TRY(file_.write_at(position_, std::as_bytes(std::span(data))));
  position_ += data.size();
  return {};
}

Status Writer::begin(std::string_view name, std::uint64_t bytes) {
  added_.push_back({std::string(name), position_, bytes, 0});
  const std::uint64_t unpadded = position_ + kLocalHeaderBytes + name.size() + 4;
  const std::uint64_t padding = (alignment_ - unpadded % alignment_) % alignment_;
  std::string header;
  put(header, 4, kLocalHeaderSignature);
  put(header, 2, 0);
  put(header, 2, kFlags);
  put(header, 2, kStored);
  header.append(16, '\0');  // time, CRC, sizes
  put(header, 2, name.size());
  put(header, 2, 4 + padding);
  header += name;
  header += kPaddingId;
  put(header, 2, padding);
  header.append(static_cast<std::size_t>(padding), 'Z');
  return append(header);
}

Status Writer::end(std::uint32_t crc) {
  Added& entry = added_.back();
  entry.crc32 = crc;
  if (entry.bytes == 0) return {};
  const int width = is_wide(entry.header_offset) || is_wide(entry.bytes) ? 8 : 4;
  std::string descriptor;
  put(descriptor, 4, kDescriptorSignature);
  put(descriptor, 4, crc);
  put(descriptor, width, entry.bytes);
  put(descriptor, width, entry.bytes);
  return append(descriptor);
}

Status Writer::add(std::string_view name, std::string_view data) {
  SHARDKIT_TRY(begin(name, data.size()));
  SHARDKIT_TRY(append(data));
  return end(crc32(std::as_bytes(std::span(data))));
}

Status Writer::add(std::string_view name, std::uint64_t bytes, const Fill& fill) {
  SHARDKIT_TRY(begin(name, bytes));
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, kBlockBytes)));
  std::uint32_t crc = 0;
  for (std::uint64_t done = 0; done < bytes;) {
    const auto block = std::span(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), bytes - done)));
    SHARDKIT_TRY(fill(done, block));
    SHARDKIT_TRY(file_.write_at(position_ + done, block));
    crc = crc32(block, crc);
    done += block.size();
  }
  position_ += bytes;
  return end(crc);
}

Status Writer::add_hole(std::string_view name, std::uint64_t bytes) {
  SHARDKIT_TRY(begin(name, bytes));
  position_ += bytes;
  return end(0);
}

Status Writer::finish() {
  const std::uint64_t directory = position_;
  std::string out;
  for (const Added& entry : added_) {
    const std::string extra = zip64_extra({entry.bytes, entry.bytes, entry.header_offset});
    put(out, 4, kDirectorySignature);
    put(out, 4, 0);
    put(out, 2, kFlags);
    put(out, 2, kStored);
    put(out, 4, 0);
    put(out, 4, entry.crc32);
    put(out, 4, narrow(entry.bytes));
    put(out, 4, narrow(entry.bytes));
    put(out, 2, entry.name.size());
    put(out, 2, extra.size());
    out.append(10, '\0');  // comment, disk, attributes
    put(out, 4, narrow(entry.header_offset));
    out += entry.name;
    out += extra;
  }
  const std::uint64_t bytes = out.size();
  const std::uint64_t zip64_end = directory + bytes;
  put(out, 4, kZip64EndSignature);
  put(out, 8, kZip64EndBytes - 12);
  put(out, 2, 0x031e);
  put(out, 2, 45);
  put(out, 8, 0);
  put(out, 8, added_.size());
  put(out, 8, added_.size());
  put(out, 8, bytes);
  put(out, 8, directory);
  put(out, 4, kZip64LocatorSignature);
  put(out, 4, 0);
  put(out, 8, zip64_end);
  put(out, 4, 1);
  put(out, 4, kEndSignature);
  put(out, 4, 0);
  put(out, 2, std::min<std::uint64_t>(added_.size(), 0xffff));
  put(out, 2, std::min<std::uint64_t>(added_.size(), 0xffff));
  put(out, 4, narrow(bytes));
  put(out, 4, narrow(directory));
  put(out, 2, 0);
  return append(out);
}

}  // namespace shardkit::zip
