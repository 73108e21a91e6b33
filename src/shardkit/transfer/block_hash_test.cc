#include "shardkit/transfer/block_hash.h"

#include <gtest/gtest.h>

namespace shardkit {
namespace {

// The values are xxhsum's: printf '' | xxhsum -H3, printf 'shardkit' | xxhsum -H3.
TEST(BlockHash, IsXxh3) {
  EXPECT_EQ(hash_text(block_hash({})), "2d06800538d394c2");
  const std::string text = "shardkit";
  EXPECT_EQ(hash_text(block_hash(std::as_bytes(std::span(text)))), "ea496ecfc03e3372");
}

}  // namespace
}  // namespace shardkit
