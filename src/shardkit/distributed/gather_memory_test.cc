// What a gather takes beside its results.
#include <gtest/gtest.h>

#include "shardkit/distributed/gather.h"
#include "shardkit/distributed/whole_tensors_test_util.h"
#include "shardkit/testing/peak_memory.h"
#include "shardkit/testing/tensors.h"

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
  testing::PeakMemory memory;
  std::int64_t extra = 0;
  expect_all_ok(4, [&](ProcessGroup& group) -> Status {
    Dict state;
    for (std::size_t i = 0; i < shardings.size(); ++i)
      state.items.emplace_back(Value(std::to_string(i)),
                               testing::empty_dtensor(DType::kFloat32, shardings[i], group.rank()));
    SHARDKIT_TRY(group.barrier());
    if (group.rank() == 0) memory.restart();
    SHARDKIT_TRY(group.barrier());
    GatherOptions options;
    options.ranks_only = ranks_only;
    SHARDKIT_ASSIGN(const Value gathered, gather_state_dict(state, group, options));
    SHARDKIT_TRY(group.barrier());
    const auto results = static_cast<std::int64_t>(ranks_only.empty() ? 4 : ranks_only.size());
    if (group.rank() == 0) extra = memory.bytes() - results * (kLargest * 5 / 2 + 3 * kPage);
    return group.barrier();
  });
  return extra;
}

class GatherMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::PeakMemory::counts()) GTEST_SKIP() << "memory is not counted here";
  }
};

TEST_F(GatherMemory, RowsAreReceivedWhereTheyBelong) {
  EXPECT_LT(extra_bytes({Shard{0}, Shard{0}}, {}), kSlack);
  EXPECT_LT(extra_bytes({Shard{0}, Replicate{}}, {2}), kSlack);
}

TEST_F(GatherMemory, OtherCutsTakeNoMoreThanOneLargestTensor) {
  EXPECT_LT(extra_bytes({Shard{0}, Shard{1}}, {}), 4 * (kLargest + kPage) + kSlack);
  EXPECT_LT(extra_bytes({Shard{1}, Shard{0}}, {1}), kLargest + kPage + kSlack);
  EXPECT_GT(extra_bytes({Shard{1}, Shard{0}}, {1}), kLargest / 2);  // the count counts
}

TEST_F(GatherMemory, RanksThatGetNoResultHoldNoWholeAddend) {
  constexpr std::int64_t kRoom = 4 << 20;
  EXPECT_LT(extra_bytes({Partial{}, Partial{}}, {3}), 4 * (kRoom + kPage) + kSlack);
}

}  // namespace
}  // namespace shardkit
