// The hash of an output block, by which a manifest proves a file and a resumed merge its blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace shardkit {

/// XXH3-64 (xxHash 0.8, seed 0). Tells damage, not malice.
std::uint64_t block_hash(std::span<const std::byte> block);

/// The same of a block that comes in parts.
class BlockHasher {
 public:
  BlockHasher();
  ~BlockHasher();

  void add(std::span<const std::byte> part);
  /// The hash of all parts since the last finish(); the next add() begins another block.
  std::uint64_t finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// 16 hexadecimal digits, as xxhsum -H3 prints them.
std::string hash_text(std::uint64_t hash);

}  // namespace shardkit
