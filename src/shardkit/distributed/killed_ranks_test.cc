// A process that is killed at any step of an operation on state dicts: the others return an error
// in time, and go on with a group of their own.
#include <gtest/gtest.h>

#include "shardkit/collective/gloo/processes_test_util.h"
#include "shardkit/distributed/broadcast.h"
#include "shardkit/distributed/distribute.h"
#include "shardkit/distributed/gather.h"
#include "shardkit/distributed/whole_tensors_test_util.h"

namespace shardkit {
namespace {

using testing::empty_dtensor;
using testing::expect;
using testing::Fails;
using testing::gloo_test_options;
using testing::IsOk;
using testing::make_dict;
using testing::make_sharding;
using testing::numbered_tensor;
using testing::run_processes;
using testing::TempDir;

constexpr int kRanks = 3;
constexpr auto kDeadline = std::chrono::seconds(10);

/// Hands every call to another group, and kills its process instead of the call of a given number.
/// The calls of subgroups count as well.
class FatalGroup : public ProcessGroup {
 public:
  /// @param left  calls until the fatal one
  FatalGroup(ProcessGroup& group, int& left)
      : ProcessGroup(group.rank(), group.size(), {}), group_(group), left_(left) {}
  FatalGroup(std::unique_ptr<ProcessGroup> subgroup, int& left) : FatalGroup(*subgroup, left) {
    owned_ = std::move(subgroup);
  }

 private:
  Status run(const CollectiveCall& call, TimePoint) override {
    die_if_due();
    switch (call.op) {
      case CollectiveOp::kScatter:
        return group_.scatter(call.send, call.received_from(static_cast<std::size_t>(call.root)),
                              call.root);
      case CollectiveOp::kAllGather:
        return group_.all_gather(call.send.empty() ? std::span<const std::byte>() : call.send[0],
                                 call.receive);
      case CollectiveOp::kAllToAll: return group_.all_to_all(call.send, call.receive);
      case CollectiveOp::kAllReduce:
        return group_.all_reduce(call.accumulation, call.dtype, call.buffer);
      default: return Error(ErrorCode::kInternal, "the fatal group knows no such call");
    }
  }
  Result<std::unique_ptr<ProcessGroup>> run_split(const CollectiveCall& call, TimePoint) override {
    die_if_due();
    SHARDKIT_ASSIGN(auto subgroup, group_.split(call.ranks));
    if (!subgroup) return subgroup;
    return std::make_unique<FatalGroup>(std::move(subgroup), left_);
  }
  Error refuse(Error error) override { return error; }

  void die_if_due() {
    if (left_-- == 0) ::kill(::getpid(), SIGKILL);
  }

  std::unique_ptr<ProcessGroup> owned_;
  ProcessGroup& group_;
  int& left_;
};

/// What the ranks make of an operation in which `victim` is killed at its call `step`, or at none.
std::vector<Status> run_with_victim(const std::function<Status(ProcessGroup&)>& operation,
                                    int victim, int step) {
  const TempDir folder;
  const TempDir survivors_folder;
  return run_processes(kRanks, [&](int rank) -> Status {
    SHARDKIT_ASSIGN(auto group,
                    make_gloo_group(folder.path(), rank, kRanks, gloo_test_options({kDeadline})));
    const auto start = std::chrono::steady_clock::now();
    int left = step;
    FatalGroup fatal(*group, left);
    const Status status = operation(rank == victim ? static_cast<ProcessGroup&>(fatal) : *group);
    if (status.ok()) return {};
    SHARDKIT_TRY(expect(std::chrono::steady_clock::now() - start < 2 * kDeadline,
                        "an answer within twice the deadline"));
    const int rank_now = rank - (rank > victim ? 1 : 0);
    SHARDKIT_ASSIGN(auto survivors, make_gloo_group(survivors_folder.path(), rank_now, kRanks - 1,
                                                    gloo_test_options({kDeadline})));
    SHARDKIT_TRY(survivors->barrier());
    return status;
  });
}

void expect_all_steps_survived(const std::function<Status(ProcessGroup&)>& operation) {
  if (!gloo_is_available()) GTEST_SKIP() << "built without Gloo";
  for (const int victim : {0, 1}) {
    int step = 0;
    for (;; ++step) {
      SCOPED_TRACE("rank " + std::to_string(victim) + " is killed at call " + std::to_string(step));
      const auto statuses = run_with_victim(operation, victim, step);
      if (statuses[static_cast<std::size_t>(victim)].ok()) {
        for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
        break;
      }
      ASSERT_LT(step, 100);
      for (int rank = 0; rank < kRanks; ++rank)
        if (rank == victim)
          EXPECT_THAT(statuses[static_cast<std::size_t>(rank)],
                      Fails(ErrorCode::kInternal, "killed by signal 9"));
        else
          EXPECT_THAT(
              statuses[static_cast<std::size_t>(rank)],
              Fails(ErrorCode::kPeer, "rank " + std::to_string(victim) + " left the group"));
    }
    EXPECT_GE(step, 2) << "the calls of an operation go through the fatal group";
  }
}

const Dims kShape = {64, 300};  // shards larger than what goes along with a message

Dict full_state() {
  return make_dict({{"w", numbered_tensor(DType::kFloat32, kShape, 1)},
                    {"b", numbered_tensor(DType::kFloat32, {3}, 2)}});
}

Dict local_state(int rank) {
  return make_dict(
      {{"w", empty_dtensor(DType::kFloat32, make_sharding({kRanks}, {0, 1, 2}, {Shard{0}}, kShape),
                           rank)},
       {"b", make_cpu_tensor(DType::kFloat32, {3}).value()}});
}

TEST(KilledRanks, BroadcastStateDict) {
  expect_all_steps_survived([](ProcessGroup& group) {
    Dict local = local_state(group.rank());
    return broadcast_state_dict(full_state(), local, group);
  });
}

TEST(KilledRanks, DistributeStateDict) {
  expect_all_steps_survived([](ProcessGroup& group) {
    Dict local = local_state(group.rank());
    return distribute_state_dict(full_state(), local, group);
  });
}

TEST(KilledRanks, GatherStateDict) {
  const auto over = [](std::vector<std::int64_t> ranks, Placement placement) {
    const auto size = static_cast<std::int64_t>(ranks.size());
    return make_sharding({size}, std::move(ranks), {placement}, kShape);
  };
  expect_all_steps_survived([&](ProcessGroup& group) -> Status {
    const auto tensor = [&](const auto& sharding) {
      return empty_dtensor(DType::kFloat32, sharding, group.rank());
    };
    // In turn: rows straight into their place, columns, addends, and a part of the ranks, which
    // needs a subgroup.
    const Dict state = make_dict({{"rows", tensor(over({0, 1, 2}, Shard{0}))},
                                  {"columns", tensor(over({0, 1, 2}, Shard{1}))},
                                  {"sums", tensor(over({0, 1, 2}, Partial{ReduceOp::kSum}))},
                                  {"pair", tensor(over({0, 1}, Shard{0}))}});
    SHARDKIT_TRY(gather_state_dict(state, group));
    return {};
  });
}

}  // namespace
}  // namespace shardkit
