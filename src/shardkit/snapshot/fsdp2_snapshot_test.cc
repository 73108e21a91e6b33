// Snapshots of DTensors on ranks that are threads: what is copied, put back, refused and agreed on.
#include "shardkit/snapshot/fsdp2_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "shardkit/collective/thread_group.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/no_threads.h"
#include "shardkit/testing/peak_memory.h"
#include "shardkit/testing/ranks.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::float_tensor;
using testing::IsOk;
using testing::make_dict;
using testing::make_sharding;
using testing::stored_floats;

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

void fill(const Tensor& tensor, float value) {
  auto* data = reinterpret_cast<float*>(tensor.storage->memory()->data);
  for (std::size_t i = 0; i < tensor.storage->bytes() / sizeof(float); ++i) data[i] = value;
}

DTensor dtensor(const std::vector<float>& values, std::vector<Placement> placements = {Shard{0}}) {
  return {float_tensor({2}, values), make_sharding({2}, {0, 1}, std::move(placements), {4})};
}

const Tensor& local(const Dict& model, const char* name) {
  const Value& value = *find(model, name);
  const auto* distributed = value.get_if<DTensor>();
  return distributed ? distributed->local : *value.get_if<Tensor>();
}

// A sharded weight, one with other placements, a transposed buffer, a scalar, no elements.
Dict model(float value) {
  Tensor transposed = float_tensor({2, 3}, std::vector<float>(6, value));
  transposed.strides = {1, 2};
  transposed.storage->memory()->data[0] = std::byte{1};
  return make_dict({{"buffer", transposed},
                    {"w", dtensor({value, value + 1})},
                    {"norm", dtensor({value, value}, {Replicate{}})},
                    {"scalar", float_tensor({}, {value})},
                    {"none", float_tensor({0, 2}, {})}});
}

TEST(Fsdp2Save, CopiesLocalPartsWithTheirSpecs) {
  const Dict live = model(3);
  const Snapshot snapshot = fsdp2_sharded_save_to_cpu(live).value();
  ASSERT_EQ(snapshot.entries.size(), 5u);
  EXPECT_EQ(snapshot.entries[1].name, "w");
  EXPECT_EQ(snapshot.entries[0].spec, nullptr);
  EXPECT_EQ(snapshot.entries[1].spec, find(live, "w")->get_if<DTensor>()->sharding);
  EXPECT_EQ(snapshot.global_spec(), snapshot.entries[1].spec) << "the first DTensor's";
  for (const SnapshotEntry& entry : snapshot.entries) EXPECT_TRUE(is_contiguous(entry.tensor));
  // Column-wise in the model, row-wise here.
  const auto columns = stored_floats(local(live, "buffer"));
  EXPECT_THAT(stored_floats(snapshot.entries[0].tensor),
              ElementsAre(columns[0], columns[2], columns[4], columns[1], columns[3], columns[5]));
  const Dict plain = make_dict({{"b", float_tensor({1}, {1})}});
  EXPECT_EQ(fsdp2_sharded_save_to_cpu(plain).value().global_spec(), nullptr);
}

TEST(Fsdp2Save, NeverAliasesLiveMemory) {
  const Dict live = model(3);
  const Snapshot snapshot = fsdp2_sharded_save_to_cpu(live).value();
  for (const char* name : {"buffer", "w", "norm", "scalar"}) fill(local(live, name), -1);
  EXPECT_THAT(stored_floats(snapshot.entries[1].tensor), ElementsAre(3, 4));
  EXPECT_THAT(stored_floats(snapshot.entries[3].tensor), ElementsAre(3));
  for (const SnapshotEntry& entry : snapshot.entries)
    for (const auto& [name, value] : live.items)
      EXPECT_NE(entry.tensor.storage, local(live, name.get_if<std::string>()->c_str()).storage);
}

TEST(Fsdp2Save, RefusesWhatItCannotKeep) {
  const Tensor tensor = float_tensor({1}, {1});
  const Tensor meta = testing::meta_tensor(DType::kFloat32, {1});
  Tensor outside = tensor;
  outside.offset = 1;
  Dict number_key;
  number_key.items.emplace_back(Value(std::int64_t{1}), tensor);
  Dict twice = make_dict({{"w", tensor}, {"w", tensor}});
  EXPECT_THAT(fsdp2_sharded_save_to_cpu(number_key), Fails(kInvalid, "must be a text: found 1"));
  EXPECT_THAT(fsdp2_sharded_save_to_cpu(twice), Fails(kInvalid, "two tensors have one name"));
  EXPECT_THAT(fsdp2_sharded_save_to_cpu(make_dict({{"w", None()}})), Fails(kInvalid, "found None"));
  EXPECT_THAT(fsdp2_sharded_save_to_cpu(make_dict({{"w", DTensor{tensor, nullptr}}})),
              Fails(kInvalid, "has no mesh"));
  EXPECT_THAT(fsdp2_sharded_save_to_cpu(make_dict({{"w", meta}})),
              Fails(kInvalid, "no bytes (meta)"));
  EXPECT_THAT(fsdp2_sharded_save_to_cpu(make_dict({{"w", outside}})),
              Fails(ErrorCode::kCorrupt, "leaves its storage"));
}

class CountingPinner : public HostPinner {
 public:
  Result<std::byte*> allocate(std::size_t bytes) override {
    if (++allocations == fail_at) return Error(ErrorCode::kLimit, "nothing left");
    ++live;
    return static_cast<std::byte*>(std::malloc(bytes));
  }
  void free(std::byte* data) noexcept override {
    --live;
    std::free(data);
  }
  Status pin(std::byte*, std::size_t) override { return ++live, Status(); }
  void unpin(std::byte*) noexcept override { --live; }

  int allocations = 0;
  int live = 0;
  int fail_at = 0;
};

TEST(Fsdp2Save, IntoPinnedAndSharedMemory) {
  const auto pinner = std::make_shared<CountingPinner>();
  {
    const Snapshot pinned = fsdp2_sharded_save_to_cpu(model(3), {false, true, pinner}).value();
    EXPECT_EQ(pinner->live, 4) << "all but the one without elements";
    EXPECT_THAT(stored_floats(pinned.entries[1].tensor), ElementsAre(3, 4));
    const Snapshot shared = fsdp2_sharded_save_to_cpu(model(5), {true, false, nullptr}).value();
    const std::string name = shared_memory_name(shared.entries[1].tensor).value();
    EXPECT_THAT(stored_floats(open_shared_tensor(name, DType::kFloat32, {2}).value()),
                ElementsAre(5, 6));
    const Snapshot both = fsdp2_sharded_save_to_cpu(model(7), {true, true, pinner}).value();
    EXPECT_EQ(pinner->live, 8);
  }
  EXPECT_EQ(pinner->live, 0);
  pinner->fail_at = pinner->allocations + 3;
  const auto made = fsdp2_sharded_save_to_cpu(model(3), {false, true, pinner});
  EXPECT_THAT(made, Fails(ErrorCode::kLimit, "nothing left"));
  EXPECT_EQ(made.error().tensor(), "norm");
  EXPECT_EQ(pinner->live, 0);
}

TEST(Refill, AllocatesNothing) {
  const Dict first = model(3);
  const Dict second = model(8);
  testing::PeakMemory count;
  Snapshot snapshot = fsdp2_sharded_save_to_cpu(first).value();
  EXPECT_EQ(count.allocations() > 0, testing::PeakMemory::counts());
  const std::byte* memory = snapshot.entries[1].tensor.storage->memory()->data;
  count.restart();
  const Status status = refill_snapshot(second, snapshot);
  const std::int64_t allocations = count.allocations();
  EXPECT_THAT(status, IsOk());
  EXPECT_EQ(allocations, 0);
  EXPECT_EQ(snapshot.entries[1].tensor.storage->memory()->data, memory);
  EXPECT_THAT(stored_floats(snapshot.entries[1].tensor), ElementsAre(8, 9));
  EXPECT_THAT(stored_floats(snapshot.entries[3].tensor), ElementsAre(8));
}

TEST(Refill, ThatDoesNotFitLeavesTheSnapshotAlone) {
  Snapshot snapshot =
      fsdp2_sharded_save_to_cpu(make_dict({{"a", float_tensor({1}, {1})}, {"w", dtensor({1, 2})}}))
          .value();
  const auto refused = [&](const char* name, const Value& w) {
    const Dict live = make_dict({{"a", float_tensor({1}, {9})}, {name, w}});
    const Status status = refill_snapshot(live, snapshot);
    EXPECT_THAT(stored_floats(snapshot.entries[0].tensor), ElementsAre(1));
    return status;
  };
  EXPECT_THAT(refused("x", dtensor({1, 2})), Fails(kInvalid, "another name at this place"));
  EXPECT_THAT(refused("w", float_tensor({2}, {1, 2})), Fails(kInvalid, "DTensor against Tensor"));
  EXPECT_THAT(refused("w", dtensor({1, 2}, {Replicate{}})),
              Fails(kInvalid, "placements [S(0)] against [R]"));
  EXPECT_THAT(refused("w", DTensor{float_tensor({1}, {1}), dtensor({1, 2}).sharding}),
              Fails(kInvalid, "local shape [2] against [1]"));
  EXPECT_THAT(refused("w", DTensor{snapshot.entries[1].tensor, snapshot.entries[1].spec}),
              Fails(kInvalid, "lies in the snapshot's memory"));
  EXPECT_THAT(refused("w", None()), Fails(kInvalid, "Tensors and DTensors"));
  EXPECT_THAT(refill_snapshot(make_dict({}), snapshot),
              Fails(kInvalid, "another number of tensors: expected 2, found 0"));
}

TEST(Refill, ASnapshotThatWasTurnedIsRefused) {
  const Dict live = make_dict({{"a", float_tensor({2, 2}, {1, 2, 3, 4})}});
  Snapshot snapshot = fsdp2_sharded_save_to_cpu(live).value();
  snapshot.entries[0].tensor.strides = {1, 2};
  EXPECT_THAT(refill_snapshot(live, snapshot),
              Fails(kInvalid, "the tensor in the snapshot is not contiguous: tensor 'a'"));
}

TEST(Refill, FromAnotherTensorsPlaceInTheSnapshotIsRefused) {
  const Dict saved = make_dict({{"a", float_tensor({2}, {1, 2})},
                                {"b", float_tensor({2}, {3, 4})},
                                {"none", float_tensor({0}, {})}});
  Snapshot snapshot = fsdp2_sharded_save_to_cpu(saved).value();
  // "b" would be read after "a" was written over it.
  const Dict live = make_dict({{"a", float_tensor({2}, {8, 9})},
                               {"b", snapshot.entries[0].tensor},
                               {"none", snapshot.entries[2].tensor}});
  const Status status = refill_snapshot(live, snapshot);
  EXPECT_THAT(status, Fails(kInvalid, "lies in the snapshot's memory"));
  EXPECT_EQ(status.error().tensor(), "b");
  EXPECT_THAT(stored_floats(snapshot.entries[0].tensor), ElementsAre(1, 2));
  EXPECT_THAT(stored_floats(snapshot.entries[1].tensor), ElementsAre(3, 4));
}

TEST(Refill, OfManyTensorsComparesThemAll) {
  Dict live;
  for (int i = 0; i < 600; ++i)
    live.items.emplace_back(std::to_string(i), float_tensor({1}, {static_cast<float>(i)}));
  Snapshot snapshot = fsdp2_sharded_save_to_cpu(live).value();
  EXPECT_THAT(refill_snapshot(live, snapshot), IsOk());
  for (const std::size_t place : {0u, 255u, 256u, 511u, 512u, 599u}) {
    Dict aliased = live;
    aliased.items[300].second = snapshot.entries[place].tensor;
    const Status status = refill_snapshot(aliased, snapshot);
    EXPECT_THAT(status, Fails(kInvalid, "lies in the snapshot's memory")) << place;
    EXPECT_EQ(status.error().tensor(), "300");
  }
}

TEST(Async, SavesAndRefillsInTheBackground) {
  const Dict live = model(3);
  auto future = fsdp2_sharded_save_to_cpu_async(live);
  Result<Snapshot> snapshot = future.get();
  ASSERT_THAT(snapshot, IsOk());
  EXPECT_THAT(stored_floats(snapshot->entries[1].tensor), ElementsAre(3, 4));
  EXPECT_THAT(refill_snapshot_async(model(6), *snapshot).get(), IsOk());
  EXPECT_THAT(stored_floats(snapshot->entries[1].tensor), ElementsAre(6, 7));
}

TEST(Async, AThreadThatTheSystemRefusesIsAnError) {
  {
    const testing::NoThreads no_threads;
    EXPECT_THAT(fsdp2_sharded_save_to_cpu_async(model(3)).get(),
                Fails(ErrorCode::kLimit, "the system starts no thread to work in the background"));
  }
  EXPECT_THAT(fsdp2_sharded_save_to_cpu_async(model(3)).get(), IsOk());
}

TEST(Async, ErrorsComeWithTheFuture) {
  EXPECT_THAT(fsdp2_sharded_save_to_cpu_async(make_dict({{"w", None()}})).get(),
              Fails(kInvalid, "found None"));
  Snapshot snapshot = fsdp2_sharded_save_to_cpu(model(3)).value();
  EXPECT_THAT(refill_snapshot_async(make_dict({}), snapshot).get(),
              Fails(kInvalid, "another number"));
  const auto pinner = std::make_shared<CountingPinner>();
  pinner->fail_at = 1;
  EXPECT_THAT(fsdp2_sharded_save_to_cpu_async(model(3), {false, true, pinner}).get(),
              Fails(ErrorCode::kLimit, "nothing left"));
  struct OutOfMemory : CountingPinner {
    Result<std::byte*> allocate(std::size_t) override { throw std::bad_alloc(); }
  };
  EXPECT_THAT(
      fsdp2_sharded_save_to_cpu_async(model(3), {false, true, std::make_shared<OutOfMemory>()})
          .get(),
      Fails(ErrorCode::kLimit, "there is not enough memory"));
}

TEST(Async, LiveMemoryStaysUntilTheCopyIsDone) {
  std::future<Result<Snapshot>> future;
  {
    const Tensor large = make_cpu_tensor(DType::kFloat32, {1 << 20}).value();
    fill(large, 4);
    future = fsdp2_sharded_save_to_cpu_async(make_dict({{"w", large}}));
  }
  EXPECT_EQ(stored_floats(future.get().value().entries[0].tensor), std::vector<float>(1 << 20, 4));
}

// What each of `size` ranks returned of a load.
std::vector<Status> load_on_ranks(int size,
                                  const std::function<Result<LoadReport>(ProcessGroup&)>& load) {
  return run_ranks(size, [&](ProcessGroup& group) -> Status {
    const auto report = load(group);
    if (!report.ok()) return report.error();
    return {};
  });
}

TEST(Fsdp2Load, PutsBackInPlaceWithMixedPlacements) {
  testing::expect_all_ok(2, [](ProcessGroup& group) -> Status {
    const float value = group.rank() == 0 ? 3.0f : 30.0f;
    const Dict live = model(value);
    const auto columns = stored_floats(local(live, "buffer"));
    SHARDKIT_ASSIGN(const Snapshot snapshot, fsdp2_sharded_save_to_cpu(live));
    for (const char* name : {"buffer", "w", "norm", "scalar"}) fill(local(live, name), -1);
    SHARDKIT_ASSIGN(const LoadReport report,
                    fsdp2_sharded_load_from_cpu(live, snapshot, snapshot.global_spec(), group));
    EXPECT_EQ(stored_floats(local(live, "buffer")), columns);
    EXPECT_THAT(stored_floats(local(live, "w")), ElementsAre(value, value + 1));
    EXPECT_THAT(stored_floats(local(live, "norm")), ElementsAre(value, value));
    EXPECT_THAT(stored_floats(local(live, "scalar")), ElementsAre(value));
    EXPECT_THAT(report.skipped, ElementsAre());
    EXPECT_THAT(report.unused, ElementsAre());
    return {};
  });
}

TEST(Fsdp2Load, SkipsAndReportsNames) {
  const Snapshot snapshot = fsdp2_sharded_save_to_cpu(make_dict({{"w", dtensor({1, 2})},
                                                                 {"old", float_tensor({1}, {1})}}))
                                .value();
  const Dict live = make_dict({{"new", float_tensor({1}, {7})}, {"w", dtensor({8, 9})}});
  auto groups = make_thread_groups(1);
  const auto report =
      fsdp2_sharded_load_from_cpu(live, snapshot, snapshot.global_spec(), *groups[0]);
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->skipped, ElementsAre("new"));
  EXPECT_THAT(report->unused, ElementsAre("old"));
  EXPECT_THAT(stored_floats(local(live, "new")), ElementsAre(7));
  EXPECT_THAT(stored_floats(local(live, "w")), ElementsAre(1, 2));
}

// Rank 1's model is wrong in one thing: no rank may write a byte, and both get the same error.
void expect_refused(const Value& wrong, const std::string& text, ErrorCode code = kInvalid) {
  const Dict good = make_dict({{"first", dtensor({5, 5})}, {"w", dtensor({6, 6})}});
  const Dict bad = make_dict({{"first", dtensor({5, 5})}, {"w", wrong}});
  const auto statuses = load_on_ranks(3, [&](ProcessGroup& group) -> Result<LoadReport> {
    const Dict saved = make_dict({{"first", dtensor({1, 2})}, {"w", dtensor({3, 4})}});
    SHARDKIT_ASSIGN(const Snapshot snapshot, fsdp2_sharded_save_to_cpu(saved));
    return fsdp2_sharded_load_from_cpu(group.rank() == 1 ? bad : good, snapshot,
                                       snapshot.global_spec(), group);
  });
  for (const Status& status : statuses) {
    EXPECT_THAT(status, Fails(code, "rank 1: "));
    EXPECT_THAT(status, Fails(code, text));
    EXPECT_EQ(status.error().tensor(), "w");
  }
  EXPECT_THAT(stored_floats(local(good, "first")), ElementsAre(5, 5));
  EXPECT_THAT(stored_floats(local(good, "w")), ElementsAre(6, 6));
  EXPECT_THAT(stored_floats(local(bad, "first")), ElementsAre(5, 5));
}

TEST(Fsdp2Load, OneRanksFaultIsEverybodysError) {
  const auto spec = dtensor({1, 2}).sharding;
  Tensor outside = float_tensor({2}, {1, 2});
  outside.offset = 1;
  Tensor expanded = float_tensor({2}, {1});
  expanded.strides = {0};
  expect_refused(float_tensor({2}, {1, 2}), "DTensor against Tensor");
  expect_refused(dtensor({1, 2}, {Replicate{}}), "placements [S(0)] against [R]");
  expect_refused(DTensor{float_tensor({3}, {1, 2, 3}), spec}, "local shape [2] against [3]");
  expect_refused(DTensor{testing::make_tensor<std::int32_t>(DType::kInt32, {2}, {1, 2}), spec},
                 "float32 against int32");
  expect_refused(DTensor{float_tensor({2}, {1, 2}), make_sharding({2}, {1, 0}, {Shard{0}}, {4})},
                 "mesh cpu");
  expect_refused(DTensor{float_tensor({2}, {1, 2}), make_sharding({2}, {0, 1}, {Shard{0}}, {3})},
                 "global shape [4] against [3]");
  expect_refused(DTensor{expanded, spec}, "share memory");
  expect_refused(DTensor{float_tensor({2}, {1, 2}), nullptr}, "has no mesh");
  expect_refused(None(), "Tensors and DTensors");
  expect_refused(DTensor{outside, spec}, "leaves its storage", ErrorCode::kCorrupt);
}

// Else one rank's part would be the saved one, and the other's would stay as it is.
TEST(Fsdp2Load, ADTensorIsPutBackByAllRanksOrByNone) {
  const auto two = [](const Value& first, const Value& second) {
    return make_dict({{"first", first}, {"second", second}});
  };
  const Dict live = two(dtensor({5, 5}), dtensor({6, 6}));
  const auto load = [&](const Dict& of_rank_0, const Dict& of_rank_1) {
    return load_on_ranks(2, [&](ProcessGroup& group) -> Result<LoadReport> {
      const Dict mine = two(dtensor({5, 5}), dtensor({6, 6}));
      SHARDKIT_ASSIGN(const Snapshot snapshot,
                      fsdp2_sharded_save_to_cpu(group.rank() == 0 ? of_rank_0 : of_rank_1));
      const auto report =
          fsdp2_sharded_load_from_cpu(mine, snapshot, snapshot.global_spec(), group);
      EXPECT_THAT(stored_floats(local(mine, "first")),
                  report.ok() ? ElementsAre(1, 2) : ElementsAre(5, 5));
      EXPECT_THAT(stored_floats(local(mine, "second")), ElementsAre(6, 6));
      return report;
    });
  };
  const Dict both = two(dtensor({1, 2}), dtensor({3, 4}));
  const Dict first = make_dict({{"first", dtensor({1, 2})}});
  for (const Status& status : load(both, first)) {
    EXPECT_THAT(status, Fails(kInvalid,
                              "rank 0: the snapshot of rank 1 lacks its part of a "
                              "tensor that is to be put back"));
    EXPECT_EQ(status.error().tensor(), "second");
  }
  for (const Status& status : load(first, first)) EXPECT_THAT(status, IsOk());
  // A name may mean a tensor of each rank's own: the stages of a pipeline have meshes of their own.
  const auto on_other_mesh =
      DTensor{float_tensor({2}, {3, 4}), make_sharding({2}, {2, 3}, {Shard{0}}, {4})};
  const auto statuses = load_on_ranks(2, [&](ProcessGroup& group) -> Result<LoadReport> {
    const bool lacks = group.rank() == 1;
    const Dict mine = two(dtensor({5, 5}), lacks ? on_other_mesh : dtensor({6, 6}));
    SHARDKIT_ASSIGN(const Snapshot snapshot, fsdp2_sharded_save_to_cpu(lacks ? first : both));
    return fsdp2_sharded_load_from_cpu(mine, snapshot, snapshot.global_spec(), group);
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(Fsdp2Load, TheMeshIsComparedWithTheTargetSpec) {
  const Dict live = make_dict({{"w", dtensor({1, 2})}});
  const Snapshot snapshot = fsdp2_sharded_save_to_cpu(live).value();
  const auto load = [&](const Dict& model, std::shared_ptr<const Sharding> target) {
    return load_on_ranks(1, [&](ProcessGroup& group) {
      return fsdp2_sharded_load_from_cpu(model, snapshot, target, group);
    })[0];
  };
  EXPECT_THAT(load(live, make_sharding({2}, {0, 1}, {Replicate{}}, {9})), IsOk())
      << "only its mesh counts";
  EXPECT_THAT(load(live, make_sharding({2}, {1, 0}, {Shard{0}}, {4})),
              Fails(kInvalid, "another mesh than the target spec"));
  Sharding cuda = *snapshot.global_spec();
  cuda.mesh = std::make_shared<const DeviceMesh>(DeviceMesh::make("cuda", {2}, {0, 1}).value());
  EXPECT_THAT(load(live, std::make_shared<const Sharding>(cuda)), Fails(kInvalid, "expected cuda"));
  EXPECT_THAT(load(live, nullptr), Fails(kInvalid, "the target spec is absent"));
  EXPECT_THAT(load(make_dict({{"b", float_tensor({1}, {1})}}), snapshot.global_spec()),
              Fails(kInvalid, "no DTensor to be on the target mesh"));
  EXPECT_THAT(load(make_dict({{"b", float_tensor({1}, {1})}}), nullptr), IsOk());
}

TEST(Fsdp2Load, IntoTheSnapshotsOwnMemoryIsRefused) {
  const Snapshot snapshot =
      fsdp2_sharded_save_to_cpu(make_dict({{"w", float_tensor({2}, {1, 2})}})).value();
  auto groups = make_thread_groups(1);
  EXPECT_THAT(fsdp2_sharded_load_from_cpu(make_dict({{"w", snapshot.entries[0].tensor}}), snapshot,
                                          nullptr, *groups[0]),
              Fails(kInvalid, "lies in the snapshot's memory"));
  Snapshot twice = snapshot;
  twice.entries.push_back(twice.entries[0]);
  auto others = make_thread_groups(1);
  EXPECT_THAT(fsdp2_sharded_load_from_cpu(make_dict({}), twice, nullptr, *others[0]),
              Fails(kInvalid, "the snapshot holds two tensors of one name"));
}

TEST(Fsdp2Load, IntoTheMemoryOfAnUnusedEntryIsRefused) {
  const Snapshot snapshot =
      fsdp2_sharded_save_to_cpu(
          make_dict({{"w", float_tensor({2}, {1, 2})}, {"old", float_tensor({2}, {3, 4})}}))
          .value();
  auto groups = make_thread_groups(1);
  const auto report = fsdp2_sharded_load_from_cpu(make_dict({{"w", snapshot.entries[1].tensor}}),
                                                  snapshot, nullptr, *groups[0]);
  ASSERT_THAT(report, Fails(kInvalid, "lies in the snapshot's memory"));
  EXPECT_EQ(report.error().tensor(), "w");
  EXPECT_THAT(stored_floats(snapshot.entries[1].tensor), ElementsAre(3, 4));
}

TEST(Fsdp2Load, TiedTensorsMustBeSavedAlike) {
  const auto load = [](const std::vector<float>& head, const Tensor& tied) {
    const Snapshot snapshot =
        fsdp2_sharded_save_to_cpu(make_dict({{"embedding", float_tensor({2}, {1, 2})},
                                             {"head", float_tensor({2}, head)}}))
            .value();
    return load_on_ranks(1, [&](ProcessGroup& group) {
      return fsdp2_sharded_load_from_cpu(make_dict({{"embedding", tied}, {"head", tied}}), snapshot,
                                         nullptr, group);
    })[0];
  };
  const Tensor tied = float_tensor({2}, {9, 9});
  EXPECT_THAT(load({1, 3}, tied),
              Fails(kInvalid,
                    "rank 0: the tensor lies in the memory of 'embedding', of which the "
                    "snapshot has other elements: tensor 'head'"));
  EXPECT_THAT(stored_floats(tied), ElementsAre(9, 9));
  EXPECT_THAT(load({1, 2}, tied), IsOk());
  EXPECT_THAT(stored_floats(tied), ElementsAre(1, 2));
}

TEST(Fsdp2Load, ARankThatIsGoneIsAnErrorInTime) {
  const Dict live = make_dict({{"w", dtensor({5, 5})}});
  const auto statuses = run_ranks(2, [&](ProcessGroup& group) -> Status {
    if (group.rank() == 1) return {};
    SHARDKIT_ASSIGN(const Snapshot snapshot,
                    fsdp2_sharded_save_to_cpu(make_dict({{"w", dtensor({1, 2})}})));
    SHARDKIT_TRY(fsdp2_sharded_load_from_cpu(live, snapshot, snapshot.global_spec(), group));
    return {};
  });
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kPeer, "rank 1"));
  EXPECT_THAT(stored_floats(local(live, "w")), ElementsAre(5, 5));
}

}  // namespace
}  // namespace shardkit
