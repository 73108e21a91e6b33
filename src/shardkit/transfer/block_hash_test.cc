#include "shardkit/transfer/block_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace shardkit {
namespace {

// The values are xxhsum's: printf '' | xxhsum -H3, printf 'shardkit' | xxhsum -H3.
TEST(BlockHash, IsXxh3) {
  EXPECT_EQ(hash_text(block_hash({})), "2d06800538d394c2");
  const std::string text = "shardkit";
  EXPECT_EQ(hash_text(block_hash(std::as_bytes(std::span(text)))), "ea496ecfc03e3372");
}

// Longer than the state's own buffer; python3 -c "print('0123456789' * 100, end='')" | xxhsum -H3.
TEST(BlockHash, IsTheSameOfPartsOfAnyLength) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('0' + i % 10);
  const auto bytes = std::as_bytes(std::span(text));
  BlockHasher hasher;
  for (const std::size_t length : {1UL, 64UL, 255UL, 256UL, 999UL, 1000UL}) {
    for (std::size_t at = 0; at < bytes.size(); at += length)
      hasher.add(bytes.subspan(at, std::min(length, bytes.size() - at)));
    EXPECT_EQ(hash_text(hasher.finish()), "dbdf770360da5ac5") << "in parts of " << length;
  }
  EXPECT_EQ(hash_text(hasher.finish()), "2d06800538d394c2") << "no parts";
}

}  // namespace
}  // namespace shardkit
