// The three calls of verl's workers, as an asynchronous trainer makes them.
#include "shardkit/snapshot/snapshot_store.h"

#include <gtest/gtest.h>

#include <cstring>

#include "shardkit/collective/thread_group.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/ranks.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::float_tensor;
using testing::IsOk;

Dict model(const std::vector<float>& values) {
  const auto size = static_cast<std::int64_t>(values.size());
  const DTensor dtensor{float_tensor({size}, values),
                        testing::make_sharding({2}, {0, 1}, {Shard{0}}, {2 * size})};
  return testing::make_dict({{"w", dtensor}});
}

float& weight(const Dict& dict) {
  return *reinterpret_cast<float*>(
      dict.items[0].second.get_if<DTensor>()->local.storage->memory()->data);
}

TEST(SnapshotStore, ComputesWithOldWeightsAndGoesBack) {
  testing::expect_all_ok(2, [](ProcessGroup& group) -> Status {
    SnapshotStore store;
    const Dict live = model({10, 11});
    SHARDKIT_TRY(store.save_model_to_cpu(0, live));
    weight(live) = 20;
    SHARDKIT_TRY(store.save_model_to_cpu(1, live));
    SHARDKIT_TRY(store.restore_model_from_cpu(0, live, group));
    EXPECT_EQ(weight(live), 10);
    SHARDKIT_TRY(store.restore_model_from_cpu(1, live, group));
    EXPECT_EQ(weight(live), 20);
    EXPECT_TRUE(store.clear_cpu_model(1));
    EXPECT_FALSE(store.clear_cpu_model(1));
    EXPECT_EQ(store.find(1), nullptr);
    SHARDKIT_TRY(store.restore_model_from_cpu(0, live, group));
    EXPECT_EQ(weight(live), 10);
    return {};
  });
}

TEST(SnapshotStore, SavingAgainRefillsOrReplaces) {
  SnapshotStore store;
  EXPECT_THAT(store.save_model_to_cpu(0, model({1, 2})), IsOk());
  const auto memory = store.find(0)->entries[0].tensor.storage;
  EXPECT_THAT(store.save_model_to_cpu(0, model({3, 4})), IsOk());
  EXPECT_EQ(store.find(0)->entries[0].tensor.storage, memory);
  EXPECT_EQ(*reinterpret_cast<float*>(memory->memory()->data), 3);
  EXPECT_THAT(store.save_model_to_cpu(0, model({5, 6, 7})), IsOk());
  EXPECT_NE(store.find(0)->entries[0].tensor.storage, memory);
  EXPECT_THAT(store.save_model_to_cpu(0, testing::make_dict({{"w", None()}})),
              Fails(ErrorCode::kInvalidArgument, "Tensors and DTensors"));
  EXPECT_EQ(store.find(0)->entries[0].tensor.numel(), 3) << "as it was";
}

TEST(SnapshotStore, ANumberThatOneRankLacksIsEverybodysError) {
  const Dict live = model({1, 2});
  const auto statuses = run_ranks(2, [&](ProcessGroup& group) -> Status {
    SnapshotStore store;
    if (group.rank() == 0) SHARDKIT_TRY(store.save_model_to_cpu(4, live));
    SHARDKIT_TRY(store.restore_model_from_cpu(4, live, group));
    return {};
  });
  for (const Status& status : statuses)
    EXPECT_THAT(status, Fails(ErrorCode::kNotFound, "rank 1: there is no snapshot 4"));
}

// Two snapshots on each rank, of which ranks put different ones back: a model of two halves.
TEST(SnapshotStore, RanksPutTheSameNumberBack) {
  const auto statuses = run_ranks(3, [&](ProcessGroup& group) -> Status {
    SnapshotStore store;
    const Dict live = model({1, 2});
    SHARDKIT_TRY(store.save_model_to_cpu(4, live));
    SHARDKIT_TRY(store.save_model_to_cpu(5, live));
    weight(live) = 9;
    const auto report = store.restore_model_from_cpu(group.rank() == 2 ? 5 : 4, live, group);
    EXPECT_EQ(weight(live), 9);
    return report.ok() ? Status() : report.error();
  });
  for (const Status& status : statuses)
    EXPECT_THAT(status, Fails(ErrorCode::kInvalidArgument,
                              "rank 0 puts snapshot 4 back, and rank 2 snapshot 5"));
}

// A rank whose save fails keeps what it had under that number, which the others have replaced.
TEST(SnapshotStore, ASaveThatFailedOnOneRankIsNotPutBackWithThoseOfTheOthers) {
  const auto statuses = run_ranks(2, [&](ProcessGroup& group) -> Status {
    SnapshotStore store;
    const Dict live = model({1, 2});
    SHARDKIT_TRY(store.save_model_to_cpu(4, live));
    weight(live) = 3;
    const bool fails = group.rank() == 1;
    const Status saved =
        store.save_model_to_cpu(4, fails ? testing::make_dict({{"w", None()}}) : live);
    EXPECT_EQ(saved.ok(), !fails);
    weight(live) = 9;
    const auto report = store.restore_model_from_cpu(4, live, group);
    EXPECT_EQ(weight(live), 9);
    SHARDKIT_TRY(store.save_model_to_cpu(4, live));
    weight(live) = 0;
    EXPECT_THAT(store.restore_model_from_cpu(4, live, group), IsOk()) << "all have saved again";
    EXPECT_EQ(weight(live), 9);
    return report.ok() ? Status() : report.error();
  });
  for (const Status& status : statuses)
    EXPECT_THAT(status, Fails(ErrorCode::kIncomplete,
                              "the snapshots 4 of ranks 0 and 1 are of different saves"));
}

}  // namespace
}  // namespace shardkit
