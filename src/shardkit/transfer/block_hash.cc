#include "shardkit/transfer/block_hash.h"

#include <fmt/format.h>

#define XXH_STATIC_LINKING_ONLY  // for the size of the state
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace shardkit {

std::uint64_t block_hash(std::span<const std::byte> block) {
  return XXH3_64bits(block.data(), block.size());
}

struct BlockHasher::State {
  XXH3_state_t xxh3;
};

BlockHasher::BlockHasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh3); }

BlockHasher::~BlockHasher() = default;

void BlockHasher::add(std::span<const std::byte> part) {
  XXH3_64bits_update(&state_->xxh3, part.data(), part.size());
}

std::uint64_t BlockHasher::finish() {
  const std::uint64_t hash = XXH3_64bits_digest(&state_->xxh3);
  XXH3_64bits_reset(&state_->xxh3);
  return hash;
}

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace shardkit
