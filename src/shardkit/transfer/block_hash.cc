#include "shardkit/transfer/block_hash.h"

#include <fmt/format.h>

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace shardkit {

std::uint64_t block_hash(std::span<const std::byte> block) {
  return XXH3_64bits(block.data(), block.size());
}

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace shardkit
