#include "shardkit/io/equal_files.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace shardkit {

Result<bool> files_are_equal(FileSystem& fs, const std::string& a, const std::string& b) {
  constexpr std::uint64_t kStep = 1 << 20;
  SHARDKIT_ASSIGN(const FileInfo info_a, fs.info(a));
  SHARDKIT_ASSIGN(const FileInfo info_b, fs.info(b));
  if (info_a.bytes != info_b.bytes) return false;
  if (info_a.device == info_b.device && info_a.inode == info_b.inode) return true;
  SHARDKIT_ASSIGN(const auto file_a, fs.open(a));
  SHARDKIT_ASSIGN(const auto file_b, fs.open(b));
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(2 * kStep);
  for (std::uint64_t at = 0; at < info_a.bytes; at += kStep) {
    const auto bytes = static_cast<std::size_t>(std::min(kStep, info_a.bytes - at));
    SHARDKIT_TRY(file_a->read_at(at, {buffer.get(), bytes}));
    SHARDKIT_TRY(file_b->read_at(at, {buffer.get() + kStep, bytes}));
    if (std::memcmp(buffer.get(), buffer.get() + kStep, bytes) != 0) return false;
  }
  return true;
}

}  // namespace shardkit
