// State dicts across two hosts, and a cable between them that is pulled: all ranks get an error
// within the deadline.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <new>
#include <sstream>
#include <thread>

#include "shardkit/collective/gloo/two_hosts_test_util.h"
#include "shardkit/distributed/broadcast.h"
#include "shardkit/distributed/distribute.h"
#include "shardkit/distributed/gather.h"
#include "shardkit/distributed/whole_tensors_test_util.h"

namespace shardkit {
namespace {

using testing::dense_bytes;
using testing::empty_dtensor;
using testing::entry;
using testing::expect;
using testing::gloo_test_options;
using testing::IsOk;
using testing::make_dict;
using testing::make_sharding;
using testing::numbered_tensor;
using testing::part_bytes;
using testing::TempDir;
using testing::TwoHosts;

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kRanks = 4;
constexpr int kHosts = 2;
constexpr auto kDeadline = seconds(3);
constexpr auto kAnswer = seconds(2);  // what a busy machine may take beyond a deadline

int host_of(int rank) { return rank / 2; }

/// What all processes of a test see.
struct Events {
  std::atomic<int> ready = 0;
  std::atomic<bool> pulled = false;

  static Events& shared() {
    void* memory =
        ::mmap(nullptr, sizeof(Events), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *new (memory) Events;
  }
  /// False: not within a minute.
  template <typename Fn>
  static bool wait(const Fn& holds) {
    for (const auto start = Clock::now(); Clock::now() - start < std::chrono::minutes(1);) {
      if (holds()) return true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }
  Status wait_until_ready(int count) const {
    return expect(wait([&] { return ready >= count; }), "ranks that are ready");
  }
  Status wait_until_pulled() const {
    return expect(wait([&] { return pulled.load(); }), "a cable that is pulled");
  }
};

/// What the cable has brought to this process' host and taken from it, in bytes.
std::int64_t cable_bytes() {
  std::ifstream devices("/proc/net/dev");
  for (std::string line; std::getline(devices, line);) {
    const auto name = line.find(std::string(TwoHosts::kInterface) + ":");
    if (name == std::string::npos) continue;
    std::istringstream numbers(line.substr(line.find(':') + 1));
    std::int64_t received = 0;
    std::int64_t sent = 0;
    numbers >> received;
    for (int i = 0; i < 8; ++i) numbers >> sent;  // the ninth number
    return received + sent;
  }
  return -1;
}

/// Ranks 0 and 1 on host 0, 2 and 3 on host 1, and one more process that pulls the cable.
struct Script {
  std::function<Status(int rank, Events&)> rank;
  std::function<Status(const TwoHosts&, Events&)> puller = [](const TwoHosts&, Events&) {
    return Status();
  };
};

/// The first error of those that had to see something else.
Status run_on_two_hosts(const Script& script) {
  return testing::run_in_private_network([&]() -> Status {
    SHARDKIT_ASSIGN(const TwoHosts hosts, TwoHosts::make());
    Events& events = Events::shared();
    const auto statuses = testing::run_processes(kRanks + 1, [&](int rank) -> Status {
      if (rank == kRanks) return script.puller(hosts, events);
      SHARDKIT_TRY(hosts.enter(host_of(rank)));
      return script.rank(rank, events);
    });
    for (int rank = 0; rank <= kRanks; ++rank)
      if (const Status& status = statuses[static_cast<std::size_t>(rank)]; !status.ok())
        return Error(status.error().code(),
                     "process " + std::to_string(rank) + ": " + status.error().what());
    return {};
  });
}

GlooOptions options() {
  GlooOptions gloo;
  gloo.group.timeout = kDeadline;
  gloo.start_timeout = seconds(30);
  return gloo;
}

Result<std::unique_ptr<ProcessGroup>> meet(int rank, const GlooOptions& gloo = options()) {
  return make_gloo_group({"test", rank, kRanks, TwoHosts::address_of(0), 29400}, gloo);
}

/// That a call failed as one does whose ranks on the other host do not answer.
Status expect_cut(const Status& status, Clock::time_point start, milliseconds deadline) {
  SHARDKIT_TRY(expect(!status.ok(), "an error"));
  SHARDKIT_TRY(
      expect(status.error().code() == ErrorCode::kPeer, "kPeer, not " + status.error().message()));
  return expect(Clock::now() - start < deadline + kAnswer, "an answer within the deadline");
}

Status expect_named(const Status& status, int rank) {
  const std::string others = host_of(rank) == 0 ? "ranks 2, 3 had not" : "ranks 0, 1 had not";
  return expect(status.error().what().find(others) != std::string::npos,
                others + ", not " + status.error().what());
}

std::shared_ptr<const Sharding> rows_of(const Dims& shape) {
  return make_sharding({kRanks}, {0, 1, 2, 3}, {Shard{0}}, shape);
}

TEST(TwoHosts, OperationsBringTheRightBytes) {
  if (!gloo_is_available()) GTEST_SKIP() << "built without Gloo";
  const Dims shape = {4096, 300};
  const auto rank_fn = [&](int rank, Events& events) -> Status {
    SHARDKIT_ASSIGN(auto group, meet(rank));
    const Tensor whole = numbered_tensor(DType::kFloat32, shape, 1);
    const Tensor bias = numbered_tensor(DType::kFloat32, {3}, 2);
    const auto sharding = rows_of(shape);
    const auto empty = [&] {
      return make_dict({{"w", empty_dtensor(DType::kFloat32, sharding, rank)},
                        {"b", make_cpu_tensor(DType::kFloat32, {3}).value()}});
    };
    const auto holds_its_part = [&](const Dict& local) {
      return expect(dense_bytes(entry<DTensor>(local, "w").local) ==
                            part_bytes(whole, *sharding, *sharding->mesh->coordinate_of(rank)) &&
                        dense_bytes(entry<Tensor>(local, "b")) == dense_bytes(bias),
                    "the part of this rank");
    };
    const auto before = cable_bytes();
    Dict local = empty();
    const Dict full = make_dict({{"w", whole}, {"b", bias}});
    SHARDKIT_TRY(broadcast_state_dict(rank == 0 ? full : Dict(), local, *group));
    SHARDKIT_TRY(holds_its_part(local));
    SHARDKIT_TRY(expect(cable_bytes() - before >= whole.bytes() / kHosts,
                        "the parts of host 1 through the cable"));
    Dict distributed = empty();
    SHARDKIT_TRY(distribute_state_dict(full, distributed, *group));
    SHARDKIT_TRY(holds_its_part(distributed));
    SHARDKIT_ASSIGN(const Value gathered, gather_state_dict(local, *group));
    const Dict& all = *gathered.get_if<Dict>();
    SHARDKIT_TRY(expect(dense_bytes(entry<Tensor>(all, "w")) == dense_bytes(whole) &&
                            dense_bytes(entry<Tensor>(all, "b")) == dense_bytes(bias),
                        "the whole"));
    ++events.ready;
    return group->barrier();
  };
  const Status status = run_on_two_hosts({rank_fn});
  SHARDKIT_SKIP_WITHOUT_NETWORK(status);
  EXPECT_THAT(status, IsOk());
}

// At either end: the host whose end is pulled has no way any more, to the other one nothing comes.
class PulledCable : public ::testing::TestWithParam<int> {
 protected:
  std::function<Status(const TwoHosts&, Events&)> pull_when(
      std::function<Status(Events&)> time) const {
    return [end = GetParam(), time](const TwoHosts& hosts, Events& events) -> Status {
      SHARDKIT_TRY(time(events));
      SHARDKIT_TRY(hosts.plug(end, false));
      events.pulled = true;
      return {};
    };
  }
};

TEST_P(PulledCable, BeforeACall) {
  if (!gloo_is_available()) GTEST_SKIP() << "built without Gloo";
  const TempDir folders[kHosts];
  const auto rank_fn = [&](int rank, Events& events) -> Status {
    SHARDKIT_ASSIGN(auto group, meet(rank));
    ++events.ready;
    SHARDKIT_TRY(events.wait_until_pulled());
    const auto start = Clock::now();
    const Tensor weight = numbered_tensor(DType::kFloat32, {64, 300}, 1);
    Dict local = make_dict({{"w", empty_dtensor(DType::kFloat32, rows_of(weight.shape), rank)}});
    const Status status = broadcast_state_dict(make_dict({{"w", weight}}), local, *group);
    SHARDKIT_TRY(expect_cut(status, start, kDeadline));
    SHARDKIT_TRY(expect_named(status, rank));
    // The ranks of each host go on by themselves.
    SHARDKIT_ASSIGN(auto neighbours, make_gloo_group(folders[host_of(rank)].path(), rank % 2, 2,
                                                     gloo_test_options()));
    return neighbours->barrier();
  };
  const Status status = run_on_two_hosts(
      {rank_fn, pull_when([](Events& events) { return events.wait_until_ready(kRanks); })});
  SHARDKIT_SKIP_WITHOUT_NETWORK(status);
  EXPECT_THAT(status, IsOk());
}

using Operation = std::function<Status(int rank, ProcessGroup&)>;

Operation gather_all(const Dims& shape) {
  return [shape](int rank, ProcessGroup& group) -> Status {
    const Dict state = make_dict({{"w", empty_dtensor(DType::kFloat32, rows_of(shape), rank)}});
    SHARDKIT_TRY(gather_state_dict(state, group));
    return {};
  };
}

Operation broadcast_all(const Dims& shape) {
  return [shape](int rank, ProcessGroup& group) -> Status {
    Dict full;
    if (rank == 0) full = make_dict({{"w", make_cpu_tensor(DType::kFloat32, shape).value()}});
    Dict local = make_dict({{"w", make_cpu_tensor(DType::kFloat32, shape).value()}});
    return broadcast_state_dict(full, local, group);
  };
}

// The cable is pulled as soon as a part of the elements has gone through it.
TEST_P(PulledCable, InTheMiddleOfLargeParts) {
  if (!gloo_is_available()) GTEST_SKIP() << "built without Gloo";
  const Dims shape = {32, 1 << 20};  // 128 MiB, of which as much or twice as much takes the cable
  constexpr std::int64_t kEnough = 8 << 20;
  for (const Operation& operation : {gather_all(shape), broadcast_all(shape)}) {
    const auto rank_fn = [&](int rank, Events& events) -> Status {
      SHARDKIT_ASSIGN(auto group, meet(rank));
      ++events.ready;
      const auto begin = Clock::now();
      auto start = begin;
      Status status;
      // On a fast machine one may be over before the cable is pulled.
      while (status.ok() && start - begin < std::chrono::minutes(1)) {
        start = Clock::now();
        status = operation(rank, *group);
      }
      SHARDKIT_TRY(expect(events.pulled, "no error before; " + status.error().what()));
      return expect_cut(status, start, kDeadline);
    };
    const Status status = run_on_two_hosts(
        {rank_fn, pull_when([](Events& events) -> Status {
           SHARDKIT_TRY(events.wait_until_ready(kRanks));
           const auto before = cable_bytes();
           return expect(Events::wait([&] { return cable_bytes() - before > kEnough; }),
                         "elements that go through the cable");
         })});
    SHARDKIT_SKIP_WITHOUT_NETWORK(status);
    EXPECT_THAT(status, IsOk());
  }
}

// They have each other's addresses from a folder; the connections do not come about.
TEST_P(PulledCable, BeforeTheConnectionsOfAGroup) {
  if (!gloo_is_available()) GTEST_SKIP() << "built without Gloo";
  const TempDir folder;
  const auto rank_fn = [&](int rank, Events& events) -> Status {
    SHARDKIT_TRY(events.wait_until_pulled());
    GlooOptions gloo = options();
    gloo.host = TwoHosts::address_of(host_of(rank));
    gloo.start_timeout = kDeadline;
    const auto start = Clock::now();
    const auto group = make_gloo_group(folder.path(), rank, kRanks, gloo);
    return expect_cut(group.ok() ? Status() : group.error(), start, kDeadline);
  };
  const Status status = run_on_two_hosts({rank_fn, pull_when([](Events&) { return Status(); })});
  SHARDKIT_SKIP_WITHOUT_NETWORK(status);
  EXPECT_THAT(status, IsOk());
}

// Rank 3 comes when rank 0 cannot be reached any more; the others wait for it at rank 0 already.
TEST_P(PulledCable, WhileRanksMeet) {
  if (!gloo_is_available()) GTEST_SKIP() << "built without Gloo";
  const auto rank_fn = [&](int rank, Events& events) -> Status {
    GlooOptions gloo = options();
    gloo.start_timeout = kDeadline;
    if (rank == 3) SHARDKIT_TRY(events.wait_until_pulled());
    ++events.ready;
    const auto start = Clock::now();
    const auto group = meet(rank, gloo);
    const Status status = group.ok() ? Status() : group.error();
    if (rank == 3 && GetParam() == host_of(rank))
      return expect(!status.ok() && status.error().code() == ErrorCode::kIo &&
                        status.error().what().find("no way to 10.77.0.1") != std::string::npos,
                    "no way to rank 0 from a host without a cable");
    return expect_cut(status, start, kDeadline);
  };
  const Status status = run_on_two_hosts({rank_fn, pull_when([](Events& events) -> Status {
                                            SHARDKIT_TRY(events.wait_until_ready(3));
                                            std::this_thread::sleep_for(milliseconds(300));
                                            return {};
                                          })});
  SHARDKIT_SKIP_WITHOUT_NETWORK(status);
  EXPECT_THAT(status, IsOk());
}

INSTANTIATE_TEST_SUITE_P(AtHost, PulledCable, ::testing::Range(0, kHosts));

// TCP sends again what was lost.
TEST(TwoHosts, ACableThatIsPluggedInAgainInTimeHarmsNothing) {
  if (!gloo_is_available()) GTEST_SKIP() << "built without Gloo";
  const Dims shape = {32, 1 << 14};
  const auto rank_fn = [&](int rank, Events& events) -> Status {
    GlooOptions gloo = options();
    gloo.group.timeout = seconds(60);
    SHARDKIT_ASSIGN(auto group, meet(rank, gloo));
    ++events.ready;
    SHARDKIT_TRY(events.wait_until_pulled());
    const Tensor whole = numbered_tensor(DType::kFloat32, shape, 1);
    const auto sharding = rows_of(shape);
    Dict local = make_dict({{"w", empty_dtensor(DType::kFloat32, sharding, rank)}});
    SHARDKIT_TRY(broadcast_state_dict(make_dict({{"w", whole}}), local, *group));
    return expect(dense_bytes(entry<DTensor>(local, "w").local) ==
                      part_bytes(whole, *sharding, *sharding->mesh->coordinate_of(rank)),
                  "the part of this rank");
  };
  const auto puller = [](const TwoHosts& hosts, Events& events) -> Status {
    SHARDKIT_TRY(events.wait_until_ready(kRanks));
    SHARDKIT_TRY(hosts.plug(0, false));
    events.pulled = true;
    std::this_thread::sleep_for(milliseconds(500));
    return hosts.plug(0, true);
  };
  const Status status = run_on_two_hosts({rank_fn, puller});
  SHARDKIT_SKIP_WITHOUT_NETWORK(status);
  EXPECT_THAT(status, IsOk());
}

}  // namespace
}  // namespace shardkit
