// The hash of an output block, by which a manifest proves a file and a resumed merge its blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace shardkit {

/// XXH3-64 (xxHash 0.8, seed 0). Tells damage, not malice.
std::uint64_t block_hash(std::span<const std::byte> block);

/// 16 hexadecimal digits, as xxhsum -H3 prints them.
std::string hash_text(std::uint64_t hash);

}  // namespace shardkit
