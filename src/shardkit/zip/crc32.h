// CRC-32 as zip archives use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardkit::zip {

/// The CRC-32 (polynomial 0x04C11DB7, reflected: zlib's) of `data`, continuing from the CRC of what
/// came before it. About 7 GB/s.
std::uint32_t crc32(std::span<const std::byte> data, std::uint32_t before = 0);

}  // namespace shardkit::zip
