#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "shardkit/torch_pt/sharding_hash_internal.h"

namespace shardkit {
namespace {

Sharding of(std::vector<Placement> placements, std::vector<ShardOrder> order = {}) {
  return {nullptr, std::move(placements), {8, 8}, std::move(order)};
}

TEST(ShardingHash, ManyThatDifferInOnePartAloneDiffer) {
  std::set<std::size_t> hashes;
  for (std::int64_t factor = 1; factor <= kMaxSplitFactor; ++factor)
    hashes.insert(hash_of(of({StridedShard{0, factor}})));
  EXPECT_EQ(hashes.size(), static_cast<std::size_t>(kMaxSplitFactor));
}

TEST(ShardingHash, EveryPartCounts) {
  const std::vector<Sharding> all = {
      of({Shard{0}, Shard{0}}),
      of({Shard{1}, Shard{0}}),
      of({Shard{0}, Shard{1}}),
      of({Replicate{}, Shard{0}}),
      of({StridedShard{0, 1}, Shard{0}}),
      of({StridedShard{0, 2}, Shard{0}}),
      of({Partial{ReduceOp::kSum}, Shard{0}}),
      of({Partial{ReduceOp::kMax}, Shard{0}}),
      of({Shard{0}, Shard{0}}, {{0, {0, 1}}}),
      of({Shard{0}, Shard{0}}, {{0, {1, 0}}}),
      of({Shard{0}, Shard{0}}, {{1, {0, 1}}}),
      {nullptr, {Shard{0}, Shard{0}}, {8, 9}, {}},
      {nullptr, {Shard{0}, Shard{0}}, {8}, {}},
  };
  std::set<std::size_t> hashes;
  for (const Sharding& sharding : all) hashes.insert(hash_of(sharding));
  EXPECT_EQ(hashes.size(), all.size());
  EXPECT_EQ(hash_of(all[0]), hash_of(of({Shard{0}, Shard{0}})));
}

}  // namespace
}  // namespace shardkit
