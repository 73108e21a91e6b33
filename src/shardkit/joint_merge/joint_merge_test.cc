// Merges by ranks that are threads, each with a disk of its own: compared with that of one process.
#include "shardkit/joint_merge/joint_merge.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shardkit/collective/thread_group.h"
#include "shardkit/io/system_calls.h"
#include "shardkit/joint_merge/partial_disk_test_util.h"
#include "shardkit/testing/faulty_calls.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/torch_pt/writer.h"

namespace shardkit {
namespace {

using testing::CallKind;
using testing::Fails;
using testing::Fault;
using testing::FaultAction;
using testing::FaultyCalls;
using testing::IsOk;
using testing::PartialDisk;
using testing::write_file;

constexpr int kShards = 4;

using Content = std::map<std::string, std::string>;

Content content_of(const std::string& folder) {
  Content content;
  if (!std::filesystem::exists(folder)) return content;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      content[std::filesystem::relative(entry.path(), folder).string()] =
          testing::read_file(entry.path().string());
  return content;
}

/// Four ranks' checkpoint of some 45 MB in three files and seven blocks: cut by rows, by columns,
/// and copies; with an alias that has to be read to be known as such.
class JointMergeTest : public ::testing::Test {
 protected:
  JointMergeTest() {
    options_.local_dir = dir_ / "ckpt";
    options_.target_dir = dir_ / "out";
    options_.dtype.kind = hf::DTypeChoice::Kind::kKeep;
    options_.max_shard_bytes = 20 << 20;
    options_.transfer.threads = 2;
    for (int rank = 0; rank < kShards; ++rank) write_rank_file(rank);
    write_file(dir_ / "ckpt/huggingface/config.json",
               R"({"model_type": "llama", "tie_word_embeddings": true, "torch_dtype": "float32"})");
    write_file(dir_ / "ckpt/huggingface/tokenizer/vocab.txt", "a\nb\n");
    write_file(dir_ / "ckpt/fsdp_config.json", R"({"FSDP_version": 2, "world_size": 4})");
  }

  std::string rank_file(int rank) const {
    return dir_ / ("ckpt/model_world_size_4_rank_" + std::to_string(rank) + ".pt");
  }

  void write_rank_file(int rank, float change = 0) {
    std::filesystem::create_directories(dir_ / "ckpt");
    const auto values = [](std::int64_t count, int begin, int step) {
      std::vector<float> all(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<float>((begin + static_cast<std::int64_t>(i) * step) % 65521);
      return all;
    };
    const auto sharding = [](Placement placement, Dims shape) {
      return testing::make_sharding({kShards}, {0, 1, 2, 3}, {placement}, std::move(shape));
    };
    constexpr std::int64_t kRows = 1000, kColumns = 1024;
    const auto rows = [&](int begin) {
      return DTensor{
          testing::float_tensor({kRows, kColumns}, values(kRows * kColumns, begin + rank, 3)),
          sharding(Shard{0}, {kShards * kRows, kColumns})};
    };
    Tensor copy = testing::float_tensor({5}, {1, 2, 3, 4, 5 + change});
    const Value root = testing::make_dict(
        {{"model.embed_tokens.weight", rows(7)},
         {"model.by_columns",
          DTensor{testing::float_tensor({700, 1500}, values(700 * 1500, rank * 11, 5)),
                  sharding(Shard{1}, {700, 6000})}},
         {"model.norm.weight", DTensor{copy, sharding(Replicate{}, {5})}},
         {"model.more_rows", rows(100)},
         {"lm_head.weight", rows(7)}});
    std::filesystem::remove(rank_file(rank));
    write_pt_file(rank_file(rank), root, rank);
  }

  static void write_pt_file(const std::string& path, const Value& root, int rank = 0) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    const auto file = posix_file_system().create(path).value();
    PtWriteOptions options;
    options.rank = rank;
    write_pt(*file, root, options).value();
    file->close().value();
  }

  /// What one process makes of it.
  Content expected() {
    MergeOptions options = options_;
    options.target_dir = dir_ / "reference";
    FSDPModelMerger(posix_file_system(), options).merge_and_save().value();
    return content_of(options.target_dir);
  }

  using Disk = std::function<FileSystem&(int rank)>;
  using Change = std::function<void(int rank, MergeOptions&)>;

  std::vector<Status> merge(int size, const Disk& disk, const Change& change = {}) {
    return run_ranks(size,
                     [&](ProcessGroup& group) -> Status {
                       MergeOptions options = options_;
                       if (change) change(group.rank(), options);
                       SHARDKIT_ASSIGN(const MergeReport report,
                                       merge_jointly(disk(group.rank()), options, group));
                       if (group.rank() == 0) report_ = report;
                       return {};
                     },
                     {std::chrono::seconds(60)});
  }

  static FileSystem& whole_disk(int) { return posix_file_system(); }

  void expect_nothing_left() const {
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
    EXPECT_FALSE(std::filesystem::exists(dir_ / ".out.shardkit-stage"));
    EXPECT_FALSE(std::filesystem::exists(dir_ / ".out.shardkit-lock"));
  }

  void expect_all_fail(const std::vector<Status>& statuses, ErrorCode code,
                       const std::string& text) const {
    for (const Status& status : statuses) EXPECT_THAT(status, Fails(code, text));
    expect_nothing_left();
  }

  testing::TempDir dir_{std::filesystem::exists("/dev/shm") ? "/dev/shm" : ""};
  MergeOptions options_;
  MergeReport report_;
};

TEST_F(JointMergeTest, TheFolderIsTheOneThatOneProcessMakes) {
  const Content alone = expected();
  ASSERT_EQ(alone.size(), 7u);  // three weight files, index, manifest, and two sidecars
  for (const int size : {1, 2, 3, 4}) {
    for (const Status& status : merge(size, whole_disk)) ASSERT_THAT(status, IsOk());
    EXPECT_TRUE(content_of(dir_ / "out") == alone) << size << " ranks";
    EXPECT_EQ(report_.dropped_ties, std::vector<std::string>{"lm_head.weight"});
    EXPECT_EQ(report_.target, dir_ / "out");
    std::filesystem::remove_all(dir_ / "out");
    expect_nothing_left();
  }
}

TEST_F(JointMergeTest, EachHostHoldsItsOwnRanksFilesAlone) {
  const Content alone = expected();
  for (const int size : {2, 4}) {
    std::vector<std::unique_ptr<PartialDisk>> disks;
    for (int rank = 0; rank < size; ++rank)
      disks.push_back(std::make_unique<PartialDisk>(
          posix_file_system(), [this, rank, size](const std::string& path) {
            for (int shard = 0; shard < kShards; ++shard)
              if (path == rank_file(shard)) return shard % size != rank;
            // What stands beside the shards is on the last host alone.
            return rank + 1 != size && (path.starts_with(dir_ / "ckpt/huggingface") ||
                                        path == dir_ / "ckpt/fsdp_config.json");
          }));
    const auto statuses = merge(
        size, [&disks](int rank) -> FileSystem& { return *disks[static_cast<std::size_t>(rank)]; });
    for (const Status& status : statuses) ASSERT_THAT(status, IsOk());
    EXPECT_TRUE(content_of(dir_ / "out") == alone) << size << " hosts";
    std::filesystem::remove_all(dir_ / "out");
  }
}

TEST_F(JointMergeTest, ARankWithoutTheFolderTakesPart) {
  const Content alone = expected();
  PartialDisk empty(posix_file_system(),
                    [this](const std::string& path) { return path.starts_with(dir_ / "ckpt"); });
  const auto statuses = merge(2, [&empty](int rank) -> FileSystem& {
    return rank == 0 ? static_cast<FileSystem&>(empty) : posix_file_system();
  });
  for (const Status& status : statuses) ASSERT_THAT(status, IsOk());
  EXPECT_TRUE(content_of(dir_ / "out") == alone);
}

TEST_F(JointMergeTest, FoldersThatOneHostAloneHoldsAreJoined) {
  const Content alone = expected();
  std::filesystem::create_directories(dir_ / "more");
  for (const int rank : {2, 3}) {
    const std::filesystem::path file = rank_file(rank);
    std::filesystem::rename(file, std::filesystem::path(dir_ / "more") / file.filename());
  }
  std::vector<std::unique_ptr<PartialDisk>> disks;
  for (const char* lacks : {"more", "ckpt"})
    disks.push_back(std::make_unique<PartialDisk>(
        posix_file_system(),
        [this, lacks](const std::string& path) { return path.starts_with(dir_ / lacks); }));
  const auto disk = [&disks](int rank) -> FileSystem& {
    return *disks[static_cast<std::size_t>(rank)];
  };
  const auto more = [this](int, MergeOptions& options) {
    options.more_local_dirs = {dir_ / "more"};
  };
  for (const Status& status : merge(2, disk, more)) ASSERT_THAT(status, IsOk());
  const auto without_manifest = [](Content content) {
    EXPECT_EQ(content.erase("shardkit_manifest.json"), 1u);  // it says where the files lay
    return content;
  };
  EXPECT_TRUE(without_manifest(content_of(dir_ / "out")) == without_manifest(alone));
  std::filesystem::remove_all(dir_ / "out");
  expect_all_fail(merge(2, disk,
                        [this](int rank, MergeOptions& options) {
                          if (rank == 0) options.more_local_dirs = {dir_ / "more"};
                        }),
                  ErrorCode::kInvalidArgument,
                  "ranks 0 and 1 differ in the checkpoint's other folders");
}

TEST_F(JointMergeTest, AFileThatNobodyHasIsNamedForAll) {
  std::filesystem::remove(rank_file(2));
  expect_all_fail(merge(2, whole_disk), ErrorCode::kIncomplete, "missing: 2");
}

TEST_F(JointMergeTest, CopiesOnSeveralDisksMustBeEqual) {
  const std::string other = dir_ / "other.pt";
  std::filesystem::copy(rank_file(1), other);
  write_rank_file(1, 1);
  PartialDisk disk(posix_file_system(), rank_file(1), other);
  expect_all_fail(merge(3,
                        [&disk](int rank) -> FileSystem& {
                          return rank == 2 ? static_cast<FileSystem&>(disk) : posix_file_system();
                        }),
                  ErrorCode::kIncomplete, "ranks 0 and 2 differ in their copies of");
}

TEST_F(JointMergeTest, CopiesOfAConfigMustOrderRowsAlike) {
  options_.local_dir = dir_ / "rows";
  const Tensor matrix = testing::float_tensor({8, 1}, {0, 1, 2, 3, 4, 5, 6, 7});
  const std::string attention = "model.layers.0.self_attn.";
  write_pt_file(dir_ / "rows/model_world_size_1_rank_0.pt",
                testing::make_dict({{attention + "q_proj.weight", matrix},
                                    {attention + "k_proj.weight", matrix},
                                    {attention + "v_proj.weight", matrix}}));
  const auto write_config = [this](const std::string& folder, const std::string& heads) {
    write_file(dir_ / (folder + "/config.json"),
               R"({"model_type": "gradium_phonon_tts", "num_attention_heads": )" + heads + "}");
  };
  write_config("rows/huggingface", "2");
  write_config("other", "1");
  PartialDisk disk(posix_file_system(), dir_ / "rows/huggingface/config.json",
                   dir_ / "other/config.json");
  expect_all_fail(merge(2,
                        [&disk](int rank) -> FileSystem& {
                          return rank == 1 ? static_cast<FileSystem&>(disk) : posix_file_system();
                        }),
                  ErrorCode::kIncomplete,
                  "ranks 0 and 1 differ in what config.json makes of the output");
}

/// An adapter of one rank, and its base model in two blocks: each of two ranks writes one.
class JointLoraMergeTest : public JointMergeTest {
 protected:
  JointLoraMergeTest() {
    options_.local_dir = dir_ / "adapter";
    options_.base_model_dir = dir_ / "base";
    write_pt_file(dir_ / "adapter/model_world_size_1_rank_0.pt",
                  testing::make_dict(
                      {{"base_model.model.model.q.lora_A.default.weight", matrix(2, kColumns, 1)},
                       {"base_model.model.model.q.lora_B.default.weight", matrix(kRows, 2, 1)}}));
    write_adapter_config("adapter/lora_adapter", 8);
    write_base("base", 0);
  }

  static Tensor matrix(std::int64_t rows, std::int64_t columns, float value) {
    return testing::float_tensor(
        {rows, columns}, std::vector<float>(static_cast<std::size_t>(rows * columns), value));
  }
  void write_base(const std::string& folder, float value) {
    write_pt_file(dir_ / (folder + "/pytorch_model.bin"),
                  testing::make_dict({{"model.q.weight", matrix(kRows, kColumns, value)}}));
  }
  void write_adapter_config(const std::string& folder, int alpha) {
    write_file(dir_ / (folder + "/adapter_config.json"),
               R"({"peft_type": "LORA", "r": 2, "target_modules": ["q"], "lora_alpha": )" +
                   std::to_string(alpha) + "}");
  }

  /// By two ranks; on the disk of the second another file is at `path`.
  std::vector<Status> merge_with_other(const std::string& path, const std::string& other) {
    PartialDisk disk(posix_file_system(), dir_ / path, dir_ / other);
    return merge(2, [&disk](int rank) -> FileSystem& {
      return rank == 1 ? static_cast<FileSystem&>(disk) : posix_file_system();
    });
  }

 private:
  static constexpr std::int64_t kRows = 4000, kColumns = 1024;
};

TEST_F(JointLoraMergeTest, CopiesOfABaseModelMustBeEqual) {
  const Content alone = expected();
  write_base("other", 1);
  expect_all_fail(merge_with_other("base/pytorch_model.bin", "other/pytorch_model.bin"),
                  ErrorCode::kIncomplete,
                  "ranks 0 and 1 differ in their copies of '" + (dir_ / "base/pytorch_model.bin") +
                      "': expected XXH3-64 ");
  std::filesystem::copy_file(dir_ / "base/pytorch_model.bin", dir_ / "other/pytorch_model.bin",
                             std::filesystem::copy_options::overwrite_existing);
  for (const Status& status : merge_with_other("base/pytorch_model.bin", "other/pytorch_model.bin"))
    ASSERT_THAT(status, IsOk());
  EXPECT_TRUE(content_of(dir_ / "out") == alone);
}

TEST_F(JointLoraMergeTest, CopiesOfWhatIsSaidOfAnAdapterMustBeEqual) {
  options_.lora.mode = LoraMode::kMerge;
  write_adapter_config("other", 16);
  expect_all_fail(
      merge_with_other("adapter/lora_adapter/adapter_config.json", "other/adapter_config.json"),
      ErrorCode::kIncomplete, "ranks 0 and 1 differ in what their adapter_config.json");
  const Content alone = expected();
  for (const Status& status : merge(2, whole_disk)) ASSERT_THAT(status, IsOk());
  EXPECT_TRUE(content_of(dir_ / "out") == alone);
}

TEST_F(JointMergeTest, TheRanksMustBeGivenTheSameOptions) {
  expect_all_fail(merge(3, whole_disk,
                        [this](int rank, MergeOptions& options) {
                          if (rank == 2) options.target_dir = dir_ / "elsewhere";
                        }),
                  ErrorCode::kInvalidArgument, "ranks 0 and 2 differ in the target folder");
  expect_all_fail(merge(2, whole_disk,
                        [](int rank, MergeOptions& options) {
                          if (rank == 1) options.replicas = ReplicaPolicy::kFirst;
                        }),
                  ErrorCode::kInvalidArgument, "ranks 0 and 1 differ in their options");
  expect_all_fail(merge(2, whole_disk,
                        [](int rank, MergeOptions& options) { options.strict_names = rank == 1; }),
                  ErrorCode::kInvalidArgument,
                  "ranks 0 and 1 differ in whether names must be the base model's");
}

TEST_F(JointMergeTest, ARankThatDoesNotSeeTheTargetIsNamed) {
  PartialDisk blind(posix_file_system(), [](const std::string& path) {
    return path.find(".shardkit-stage") != std::string::npos;
  });
  expect_all_fail(merge(2,
                        [&blind](int rank) -> FileSystem& {
                          return rank == 1 ? static_cast<FileSystem&>(blind) : posix_file_system();
                        }),
                  ErrorCode::kIo, "rank 1: this rank does not see");
}

TEST_F(JointMergeTest, AnErrorOfOneRankIsTheErrorOfAll) {
  const Fault faults[] = {{CallKind::kRead, 9, FaultAction::kFail, EIO},      // while it opens
                          {CallKind::kWrite, 3, FaultAction::kFail, ENOSPC},  // a block
                          {CallKind::kFsync, 1, FaultAction::kFail, EIO}};
  for (const Fault& fault : faults) {
    SCOPED_TRACE(static_cast<int>(fault.kind));
    FaultyCalls calls(fault);
    const auto disk = make_posix_file_system(calls);
    expect_all_fail(
        merge(3,
              [&disk](int rank) -> FileSystem& { return rank == 1 ? *disk : posix_file_system(); }),
        ErrorCode::kIo, "rank 1: ");
    EXPECT_TRUE(calls.triggered());
  }
  // Of the rank that publishes: whatever it writes, nothing of it is left.
  for (int k = 1;; k += 7) {
    SCOPED_TRACE(k);
    FaultyCalls calls({CallKind::kWrite, k, FaultAction::kFail, ENOSPC});
    const auto disk = make_posix_file_system(calls);
    const auto statuses = merge(
        2, [&disk](int rank) -> FileSystem& { return rank == 0 ? *disk : posix_file_system(); });
    if (!calls.triggered()) break;
    // The line in the lock file is for people: without it all goes on.
    if (statuses[0].ok()) {
      EXPECT_EQ(k, 1);
      std::filesystem::remove_all(dir_ / "out");
      continue;
    }
    expect_all_fail(statuses, ErrorCode::kIo, "No space left on device");
  }
}

TEST_F(JointMergeTest, ABrokenFileOnOneDiskIsTheErrorOfAll) {
  std::filesystem::resize_file(rank_file(3), 5000);
  std::vector<std::unique_ptr<PartialDisk>> disks;
  for (int rank = 0; rank < 2; ++rank)
    disks.push_back(
        std::make_unique<PartialDisk>(posix_file_system(), [this, rank](const std::string& path) {
          for (int shard = 0; shard < kShards; ++shard)
            if (path == rank_file(shard)) return shard % 2 != rank;
          return false;
        }));
  expect_all_fail(
      merge(2,
            [&disks](int rank) -> FileSystem& { return *disks[static_cast<std::size_t>(rank)]; }),
      ErrorCode::kCorrupt, rank_file(3));
}

TEST_F(JointMergeTest, ARankThatIsStoppedStopsAll) {
  std::atomic<bool> cancel = true;
  expect_all_fail(merge(3, whole_disk,
                        [&cancel](int rank, MergeOptions& options) {
                          if (rank == 2) options.transfer.cancel = &cancel;
                        }),
                  ErrorCode::kCancelled, "rank 2: ");
}

TEST_F(JointMergeTest, ProgressIsOfAllRanksTogether) {
  std::uint64_t done = 0, total = 0;
  const auto statuses = merge(3, whole_disk, [&](int rank, MergeOptions& options) {
    options.transfer.on_progress = [&, rank](const Progress& progress) {
      EXPECT_EQ(rank, 0);
      EXPECT_GE(progress.bytes_done, done);
      done = progress.bytes_done;
      total = progress.bytes_total;
    };
  });
  for (const Status& status : statuses) ASSERT_THAT(status, IsOk());
  EXPECT_EQ(done, total);
  EXPECT_EQ(total, report_.summary.write_bytes);
}

TEST_F(JointMergeTest, ValuesTooLargeForFloat16AreCountedOverAllRanks) {
  options_.dtype = {hf::DTypeChoice::Kind::kCast, DType::kFloat16};
  const auto alone = FSDPModelMerger(posix_file_system(), options_).merge_and_save();
  ASSERT_THAT(alone, IsOk());
  ASSERT_EQ(alone->overflows.size(), 3u);
  std::filesystem::remove_all(dir_ / "out");
  for (const Status& status : merge(3, whole_disk)) ASSERT_THAT(status, IsOk());
  ASSERT_EQ(report_.overflows.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(report_.overflows[i].name, alone->overflows[i].name);
    EXPECT_EQ(report_.overflows[i].values, alone->overflows[i].values);
  }
}

TEST_F(JointMergeTest, AResultThatIsThereIsFoundByAll) {
  const auto found = [this] {
    int count = 0;
    std::mutex mutex;
    for (const Status& status : run_ranks(3, [&](ProcessGroup& group) -> Status {
           SHARDKIT_ASSIGN(const auto report,
                           find_merged_jointly(posix_file_system(), options_, group));
           const std::lock_guard lock(mutex);
           count += report.has_value();
           if (report && group.rank() == 0) {
             EXPECT_EQ(report->target, dir_ / "out");
           }
           return {};
         })) {
      EXPECT_THAT(status, IsOk());
    }
    return count;
  };
  EXPECT_EQ(found(), 0);
  for (const Status& status : merge(2, whole_disk)) ASSERT_THAT(status, IsOk());
  EXPECT_EQ(found(), 3);
}

TEST_F(JointMergeTest, APlanIsAgreedOnAndWritesNothing) {
  const auto statuses = run_ranks(2, [this](ProcessGroup& group) -> Status {
    SHARDKIT_ASSIGN(const MergeReport report, plan_jointly(posix_file_system(), options_, group));
    if (group.rank() == 0) report_ = report;
    return {};
  });
  for (const Status& status : statuses) ASSERT_THAT(status, IsOk());
  EXPECT_EQ(report_.weights.size(), 3u);
  expect_nothing_left();
}

/// What a killed merge has written, of one process or several, any other number takes up.
TEST_F(JointMergeTest, AKilledMergeIsTakenUpByAnyNumberOfRanks) {
  const Content alone = expected();
  constexpr std::uint64_t kRecordBytes = 32;
  const Fault among_blocks{CallKind::kFsync, 4, FaultAction::kKill, 0};
  const Fault before_publishing{CallKind::kRename, 1, FaultAction::kKill, 0};
  struct Case {
    Fault fault;
    int killed;
    int ending;  // 0: one process that knows of no ranks
  };
  for (const auto& [fault, killed, ending] : {Case{among_blocks, 1, 3},
                                              {among_blocks, 3, 2},
                                              {among_blocks, 2, 0},
                                              {before_publishing, 3, 1},
                                              {before_publishing, 2, 4},
                                              {before_publishing, 3, 0}}) {
    SCOPED_TRACE(::testing::Message() << killed << " ranks, then " << ending);
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyCalls calls(fault);
      const auto disk = make_posix_file_system(calls);
      merge(killed, [&disk](int) -> FileSystem& { return *disk; });
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
    const std::uint64_t recorded =
        std::filesystem::file_size(dir_ / ".out.shardkit-stage/blocks") / kRecordBytes;
    if (ending == 0) {
      const auto report = FSDPModelMerger(posix_file_system(), options_).merge_and_save();
      ASSERT_THAT(report, IsOk());
      report_ = *report;
    } else {
      for (const Status& each : merge(ending, whole_disk)) ASSERT_THAT(each, IsOk());
    }
    EXPECT_EQ(report_.blocks_kept, recorded);
    EXPECT_TRUE(fault.kind != CallKind::kRename || recorded == 7) << "not all blocks: " << recorded;
    EXPECT_TRUE(content_of(dir_ / "out") == alone);
    std::filesystem::remove_all(dir_ / "out");
    expect_nothing_left();
  }
}

TEST_F(JointMergeTest, ATargetThatIsNotEmptyIsRefused) {
  write_file(dir_ / "out/file", "x");
  for (const Status& status : merge(2, whole_disk))
    EXPECT_THAT(status,
                Fails(ErrorCode::kInvalidArgument, "rank 0: the target folder is not empty"));
  options_.existing = ExistingTarget::kReplace;
  for (const Status& status : merge(2, whole_disk)) ASSERT_THAT(status, IsOk());
  std::filesystem::remove_all(dir_ / "reference");
  EXPECT_TRUE(content_of(dir_ / "out") == expected());
}

}  // namespace
}  // namespace shardkit
