#include "shardkit/zip/crc32.h"

#include <libdeflate.h>

namespace shardkit::zip {

std::uint32_t crc32(std::span<const std::byte> data, std::uint32_t before) {
  // libdeflate takes a null pointer as "give me the initial value".
  if (data.empty()) return before;
  return libdeflate_crc32(before, data.data(), data.size());
}

}  // namespace shardkit::zip
