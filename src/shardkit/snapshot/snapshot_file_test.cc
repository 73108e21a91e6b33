// Snapshots on disk: what comes back, files of others, damage, faults at every call, a killed save.
#include "shardkit/snapshot/snapshot_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>

#include "shardkit/collective/thread_group.h"
#include "shardkit/safetensors/file_layout.h"
#include "shardkit/safetensors/reader.h"
#include "shardkit/state/compare.h"
#include "shardkit/testing/faulty_calls.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/ranks.h"
#include "shardkit/testing/recording_calls.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/testing/tree_text.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::float_tensor;
using testing::IsOk;
using testing::make_sharding;
using testing::TempDir;

Sharding with_order(const std::shared_ptr<const Sharding>& sharding) {
  Sharding made = *sharding;
  made.shard_order = {{0, {1, 0}}};
  return made;
}

// One tensor for each kind of spec; two share one.
Snapshot snapshot(float value) {
  const auto sharded = make_sharding({2}, {0, 1}, {Shard{0}}, {4, 3});
  const auto ordered = std::make_shared<const Sharding>(
      with_order(make_sharding({2, 2}, {0, 1, 2, 3}, {Shard{0}, Shard{0}}, {4})));
  Sharding named = *make_sharding({2, 1}, {1, 0}, {Partial{ReduceOp::kAvg}, Replicate{}}, {});
  named.mesh = std::make_shared<const DeviceMesh>(
      DeviceMesh::make("cuda", {2, 1}, {1, 0}, {"dp", "t\"p"}).value());
  Snapshot made;
  made.entries = {
      {"z.weight", float_tensor({2, 3}, {value, 1, 2, 3, 4, 5}), sharded},
      {"ordered", float_tensor({1}, {value}), ordered},
      {"same", float_tensor({2, 3}, {6, 7, 8, 9, 10, value}), sharded},
      {"strided", testing::make_tensor<std::int64_t>(DType::kInt64, {2}, {-1, 1}),
       make_sharding({2, 2}, {0, 1, 2, 3}, {StridedShard{0, 2}, Shard{0}}, {8})},
      {"scalar", float_tensor({}, {value}), std::make_shared<const Sharding>(std::move(named))},
      {"a.buffer", testing::make_tensor<char>(DType::kBool, {3}, {1, 0, 1}), nullptr},
      {"empty", float_tensor({0, 2}, {}), nullptr},
  };
  return made;
}

Value tree(const Snapshot& snapshot) {
  Dict dict;
  for (const SnapshotEntry& entry : snapshot.entries)
    dict.items.emplace_back(
        entry.name, entry.spec ? Value(DTensor{entry.tensor, entry.spec}) : Value(entry.tensor));
  return dict;
}

std::string file_of(const TempDir& dir, int size, int rank) {
  return dir / ("s/" + snapshot_file_name(size, rank));
}

Snapshot snapshot_of(const ProcessGroup& group, float value) {
  return snapshot(value + static_cast<float>(group.rank()));
}

void write_on(int size, const TempDir& dir, float value) {
  testing::expect_all_ok(size, [&](ProcessGroup& group) {
    return write_snapshot(posix_file_system(), dir / "s", snapshot_of(group, value), group);
  });
}

/// Each rank's file is what write_on() wrote: names, order, bytes and specs.
void expect_on(int size, const TempDir& dir, float value) {
  testing::expect_all_ok(size, [&](ProcessGroup& group) -> Status {
    SHARDKIT_ASSIGN(const Snapshot read, read_snapshot(posix_file_system(), dir / "s", group));
    const Value written = tree(snapshot_of(group, value));
    EXPECT_FALSE(find_difference(written, tree(read)).value()) << "bytes and specs";
    EXPECT_EQ(testing::tree_text(written), testing::tree_text(tree(read))) << "order, names";
    EXPECT_EQ(read.entries[0].spec, read.entries[2].spec);
    EXPECT_EQ(read.global_spec(), read.entries[0].spec);
    return {};
  });
}

std::vector<Status> read_on(int size, const TempDir& dir) {
  return run_ranks(size, [&](ProcessGroup& group) -> Status {
    SHARDKIT_TRY(read_snapshot(posix_file_system(), dir / "s", group));
    return {};
  });
}

TEST(SnapshotFile, ComesBackOnEachRank) {
  const TempDir dir;
  write_on(2, dir, 10);
  expect_on(2, dir, 10);
}

TEST(SnapshotFile, IsASafetensorsFileOfTheLocalParts) {
  const TempDir dir;
  write_on(1, dir, 10);
  const auto read = safetensors::read_safetensors(posix_file_system(), file_of(dir, 1, 0));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->items.size(), 7u);
  EXPECT_EQ(find(*read, "z.weight")->get_if<Tensor>()->shape, (Dims{2, 3}));
  EXPECT_EQ(find(*read, "a.buffer")->get_if<Tensor>()->dtype, DType::kBool);
}

TEST(SnapshotFile, ReadsIntoSharedMemory) {
  const TempDir dir;
  write_on(1, dir, 10);
  auto groups = make_thread_groups(1);
  const auto read =
      read_snapshot(posix_file_system(), dir / "s", *groups[0], {.share_memory = true});
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(shared_memory_name(read->entries[0].tensor));
}

TEST(SnapshotFile, AnotherRanksFileIsRefused) {
  const TempDir dir;
  write_on(2, dir, 10);
  std::filesystem::copy_file(file_of(dir, 2, 0), file_of(dir, 2, 1),
                             std::filesystem::copy_options::overwrite_existing);
  for (const Status& status : read_on(2, dir)) {
    EXPECT_THAT(status, Fails(ErrorCode::kInvalidArgument, "rank 1: the file is another rank's"));
    EXPECT_THAT(status,
                Fails(ErrorCode::kInvalidArgument, "expected rank 1 of 2, found rank 0 of 2"));
  }
  for (const Status& status : read_on(3, dir))
    EXPECT_THAT(status, Fails(ErrorCode::kNotFound, "world_size_3_rank_0"));
}

TEST(SnapshotFile, FilesOfDifferentSavesAreRefused) {
  const TempDir dir;
  write_on(2, dir, 10);
  const std::string old = testing::read_file(file_of(dir, 2, 1));
  write_on(2, dir, 20);
  testing::write_file(file_of(dir, 2, 1), old);
  for (const Status& status : read_on(2, dir))
    EXPECT_THAT(status, Fails(ErrorCode::kIncomplete, "ranks 0 and 1 are of different saves"));
}

TEST(SnapshotFile, OneRanksFaultLeavesAllOldFiles) {
  for (const auto kind : {testing::CallKind::kOpen, testing::CallKind::kWrite,
                          testing::CallKind::kFsync, testing::CallKind::kClose}) {
    const TempDir dir;
    write_on(2, dir, 10);
    const auto statuses = run_ranks(2, [&](ProcessGroup& group) {
      testing::FaultyCalls calls({.kind = group.rank() == 1 ? kind : testing::CallKind::kNone,
                                  .k = 1,
                                  .action = testing::FaultAction::kFail,
                                  .number = ENOSPC});
      const auto fs = make_posix_file_system(calls);
      return write_snapshot(*fs, dir / "s", snapshot(99), group);
    });
    for (const Status& status : statuses) EXPECT_THAT(status, Fails(ErrorCode::kIo, "rank 1: "));
    expect_on(2, dir, 10);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir / "s"), {}), 2) << "no parts";
  }
}

TEST(SnapshotFile, NewFoldersAreDurableBeforeTheFileAppears) {
  const TempDir dir;
  testing::RecordingCalls calls;
  const auto fs = make_posix_file_system(calls);
  auto groups = make_thread_groups(1);
  ASSERT_THAT(write_snapshot(*fs, dir / "runs/s", snapshot(1), *groups[0]), IsOk());
  const std::string folder = dir / "runs/s/";
  const std::string name = snapshot_file_name(1, 0);
  EXPECT_THAT(
      calls.calls(),
      ::testing::ElementsAre("make " + dir / "runs", "sync " + dir.path(), "make " + dir / "runs/s",
                             "sync " + dir / "runs", "sync " + folder + "." + name + ".part",
                             "rename " + folder + name, "sync " + dir / "runs/s"));
}

TEST(SnapshotFile, APartThatAKilledSaveLeftIsReplaced) {
  const TempDir dir;
  testing::write_file(dir / ("s/." + snapshot_file_name(1, 0) + ".part"), "half");
  write_on(1, dir, 10);
  EXPECT_THAT(read_on(1, dir)[0], IsOk());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir / "s"), {}), 1);
}

TEST(SnapshotFile, RefusesToWriteWhatItCouldNotRead) {
  const TempDir dir;
  const auto write = [&](const Snapshot& made) {
    auto groups = make_thread_groups(1);
    return write_snapshot(posix_file_system(), dir / "s", made, *groups[0]);
  };
  Snapshot made = snapshot(1);
  made.entries[1].name = "same";
  EXPECT_THAT(write(made), Fails(ErrorCode::kInvalidArgument, "two tensors of one name"));
  made = snapshot(1);
  made.entries[0].tensor.strides = {1, 2};
  EXPECT_THAT(write(made), Fails(ErrorCode::kInvalidArgument, "must be contiguous"));
  made = snapshot(1);
  made.entries[0].spec = std::make_shared<const Sharding>();
  EXPECT_THAT(write(made), Fails(ErrorCode::kInvalidArgument, "without a mesh"));
  made = snapshot(1);
  made.entries[0].spec = make_sharding({2}, {0, 1}, {Shard{2}}, {4, 3});
  EXPECT_THAT(write(made), Fails(ErrorCode::kCorrupt, "cuts a dimension that the tensor does not"));
  made = snapshot(1);
  made.entries[0].spec = make_sharding({2}, {0, 1}, {StridedShard{0, 9'999'999}}, {4, 3});
  EXPECT_THAT(write(made), Fails(ErrorCode::kLimit, "split factors of a tensor are too large"));
  made = snapshot(1);
  made.entries[0].spec = make_sharding({2}, {0, 1}, {Shard{0}}, {4});
  EXPECT_THAT(write(made), Fails(ErrorCode::kInvalidArgument,
                                 "not as many dimensions as its spec: tensor "
                                 "'z.weight', expected 1, found 2"));
  made = snapshot(1);
  made.entries[0].tensor.offset = 1;
  EXPECT_THAT(write(made), Fails(ErrorCode::kCorrupt, "leaves its storage"));
  made = snapshot(1);
  made.entries[0].tensor = testing::make_tensor<double>(DType::kComplex128, {1, 1}, {0, 0});
  EXPECT_THAT(write(made), Fails(ErrorCode::kUnsupported, "no type for complex128"));
  made = snapshot(1);
  made.entries[0].name = std::string(17u << 20, 'x');
  EXPECT_THAT(write(made), Fails(ErrorCode::kLimit, "names and specs of a snapshot are too long"));
  EXPECT_FALSE(std::filesystem::exists(file_of(dir, 1, 0)));
}

// A file whose metadata and tensors need not fit.
void write_hostile(const TempDir& dir, const std::string& metadata,
                   const char* key = "shardkit.snapshot") {
  const safetensors::TensorSpec w{"w", DType::kFloat32, {1}};
  const std::pair<std::string, std::string> text(key, metadata);
  const auto layout = safetensors::lay_out(std::span(&w, 1), std::span(&text, 1)).value();
  testing::write_file(file_of(dir, 1, 0), layout.head + "1234");
}

constexpr const char* kGood =
    R"({"version":1,"save":"x","world_size":1,"rank":0,"meshes":[{"device_type":"cpu","shape":[1],)"
    R"("ranks":[0],"dim_names":[]}],"specs":[{"mesh":0,"placements":[["S",0]],"shape":[1],)"
    R"("shard_order":[]}],"tensors":[["w",0]]})";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(SnapshotFile, NothingInAFileIsBelieved) {
  const TempDir dir;
  const auto read = [&](const std::string& metadata) {
    write_hostile(dir, metadata);
    return read_on(1, dir)[0];
  };
  EXPECT_THAT(read(kGood), IsOk()) << "what the others are changed from";
  constexpr auto kCorrupt = ErrorCode::kCorrupt;
  struct Case {
    const char* from;
    const char* to;
    ErrorCode code;
    const char* text;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"\"version\":1", "\"version\":2", ErrorCode::kUnsupported, "another version"},
           {"\"version\":1,", "", kCorrupt, "no version"},
           {"\"world_size\":1", "\"world_size\":0", kCorrupt, "no save, world_size or rank"},
           {"\"rank\":0", "\"rank\":1", kCorrupt, "no save, world_size or rank"},
           {"\"world_size\":1,\"rank\":0", "\"world_size\":2,\"rank\":1",
            ErrorCode::kInvalidArgument, "another rank's"},
           {"\"ranks\":[0]", "\"ranks\":[0,1]", kCorrupt, ""},
           {"\"shape\":[1],\"ranks\"", "\"shape\":[1000000000000],\"ranks\"", kCorrupt, ""},
           {"\"shape\":[1],\"ranks\"", "\"shape\":1,\"ranks\"", kCorrupt, "no mesh"},
           {"\"dim_names\":[]", "\"dim_names\":[1]", kCorrupt, "no mesh"},
           {"\"mesh\":0", "\"mesh\":1", kCorrupt, "no spec"},
           {"\"mesh\":0", "\"mesh\":-1", kCorrupt, "no spec"},
           {"[\"S\",0]", "[\"S\",1]", kCorrupt, ""},
           {"[\"S\",0]", "[\"S\"]", kCorrupt, "no placement"},
           {"[\"S\",0]", "[\"_S\",0]", kCorrupt, "no placement"},
           {"[\"S\",0]", "[\"P\",\"sum\"],[\"R\"]", kCorrupt, ""},
           {"[\"S\",0]", "[\"P\",\"most\"]", kCorrupt, "no placement"},
           {"[\"S\",0]", "[\"_S\",0,9999999]", ErrorCode::kLimit, ""},
           {"\"shard_order\":[]", "\"shard_order\":[[0]]", kCorrupt, "no order"},
           {"\"shard_order\":[]", "\"shard_order\":[[0,[7]]]", kCorrupt, ""},
           {"\"shape\":[1],\"shard_order\"", "\"shape\":[1,1],\"shard_order\"", kCorrupt,
            "not as many dimensions"},
           {"[\"w\",0]", "[\"w\",1]", kCorrupt, "no pair"},
           {"[\"w\",0]", "[\"w\"]", kCorrupt, "no pair"},
           {"[\"w\",0]", "[\"v\",0]", kCorrupt, "no tensor of this name"},
           {"[\"w\",0]", "[\"w\",0],[\"w\",0]", kCorrupt, "names it twice"},
           {"[[\"w\",0]]", "[]", kCorrupt, "does not name the tensor"},
           {"\"tensors\"", "\"other\"", kCorrupt, "no list \"tensors\""},
           {"{\"version\"", "{{\"version\"", kCorrupt, ""},
       }) {
    EXPECT_THAT(read(changed(c.from, c.to)), Fails(c.code, c.text)) << c.to;
    EXPECT_THAT(read(changed(c.from, c.to)), Fails(c.code, file_of(dir, 1, 0))) << c.to;
  }
  write_hostile(dir, kGood, "other");
  EXPECT_THAT(read_on(1, dir)[0],
              Fails(ErrorCode::kInvalidArgument, "without a snapshot's metadata"));
  write_hostile(dir, kGood);
  std::filesystem::resize_file(file_of(dir, 1, 0),
                               std::filesystem::file_size(file_of(dir, 1, 0)) - 1);
  EXPECT_THAT(read_on(1, dir)[0], Fails(kCorrupt, file_of(dir, 1, 0)));
}

}  // namespace
}  // namespace shardkit
