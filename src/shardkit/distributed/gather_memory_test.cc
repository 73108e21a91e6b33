// What a gather takes beside its results, by counting what malloc() hands out.
#include <gtest/gtest.h>

#include "shardkit/distributed/gather.h"
#include "shardkit/distributed/whole_tensors_test_util.h"
#include "shardkit/testing/tensors.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <malloc.h>

#include <atomic>
#include <cstdlib>

namespace {

// Small allocations are left out: they are those of the trees and messages.
constexpr std::size_t kCounted = 64 << 10;
std::atomic<std::int64_t> now{0};
std::atomic<std::int64_t> peak{0};

void* counted(void* memory) {
  const std::size_t bytes = memory ? malloc_usable_size(memory) : 0;
  if (bytes < kCounted) return memory;
  const std::int64_t sum = now += static_cast<std::int64_t>(bytes);
  std::int64_t highest = peak;
  while (sum > highest && !peak.compare_exchange_weak(highest, sum)) {
  }
  return memory;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t bytes) noexcept;
void* __libc_calloc(std::size_t count, std::size_t bytes) noexcept;
void __libc_free(void* memory) noexcept;

void* malloc(std::size_t bytes) noexcept { return counted(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return counted(__libc_calloc(count, bytes));
}
void free(void* memory) noexcept {
  const std::size_t bytes = memory ? malloc_usable_size(memory) : 0;
  if (bytes >= kCounted) now -= static_cast<std::int64_t>(bytes);
  __libc_free(memory);
}
}

namespace shardkit {
namespace {

using testing::expect_all_ok;
using testing::make_dict;
using testing::make_sharding;

constexpr std::int64_t kLargest = 8 << 20;  // of three tensors
constexpr std::int64_t kSlack = 1 << 20;    // threads and messages
constexpr std::int64_t kPage = 2 << 20;     // what make_cpu_tensor() takes to align a large tensor

// The most that all four ranks together have at once, beside their own parts and the results.
std::int64_t extra_bytes(const std::vector<Placement>& placements,
                         const std::vector<int>& ranks_only) {
  const auto of_rows = [&](std::int64_t rows) {
    return make_sharding({2, 2}, {0, 1, 2, 3}, placements, {rows, 1024});
  };
  const std::vector<std::shared_ptr<const Sharding>> shardings{of_rows(2048), of_rows(1024),
                                                               of_rows(2048)};
  std::int64_t extra = 0;
  expect_all_ok(4, [&](ProcessGroup& group) -> Status {
    Dict state;
    for (std::size_t i = 0; i < shardings.size(); ++i)
      state.items.emplace_back(Value(std::to_string(i)),
                               testing::empty_dtensor(DType::kFloat32, shardings[i], group.rank()));
    SHARDKIT_TRY(group.barrier());
    const std::int64_t before = now;
    SHARDKIT_TRY(group.barrier());
    peak = before;
    SHARDKIT_TRY(group.barrier());
    GatherOptions options;
    options.ranks_only = ranks_only;
    SHARDKIT_ASSIGN(const Value gathered, gather_state_dict(state, group, options));
    SHARDKIT_TRY(group.barrier());
    const auto results = static_cast<std::int64_t>(ranks_only.empty() ? 4 : ranks_only.size());
    if (group.rank() == 0) extra = peak - before - results * (kLargest * 5 / 2 + 3 * kPage);
    return group.barrier();
  });
  return extra;
}

TEST(GatherMemory, RowsAreReceivedWhereTheyBelong) {
  EXPECT_LT(extra_bytes({Shard{0}, Shard{0}}, {}), kSlack);
  EXPECT_LT(extra_bytes({Shard{0}, Replicate{}}, {2}), kSlack);
}

TEST(GatherMemory, OtherCutsTakeNoMoreThanOneLargestTensor) {
  EXPECT_LT(extra_bytes({Shard{0}, Shard{1}}, {}), 4 * (kLargest + kPage) + kSlack);
  EXPECT_LT(extra_bytes({Shard{1}, Shard{0}}, {1}), kLargest + kPage + kSlack);
  EXPECT_GT(extra_bytes({Shard{1}, Shard{0}}, {1}), kLargest / 2);  // the count counts
}

TEST(GatherMemory, RanksThatGetNoResultHoldNoWholeAddend) {
  constexpr std::int64_t kRoom = 4 << 20;
  EXPECT_LT(extra_bytes({Partial{}, Partial{}}, {3}), 4 * (kRoom + kPage) + kSlack);
}

}  // namespace
}  // namespace shardkit
#endif
