// Merges in which one system call fails, is cut short, is slow or is the process's last: whatever
// happens, a loader finds the old model, the new one or none, and the same command ends the work.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>

#include "shardkit/io/system_calls.h"
#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/merge/rank_files_test_util.h"
#include "shardkit/testing/faulty_calls.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/read_folder.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::CallKind;
using testing::Fails;
using testing::Fault;
using testing::FaultAction;
using testing::FaultyCalls;
using testing::write_file;

/// How the output folder appears: docs/publish.md.
enum class Way {
  kRename,      ///< onto nothing
  kExchange,    ///< --overwrite
  kMountEmpty,  ///< by files into a mount point
  kMount,       ///< by files into a mount point, --overwrite
  kNoExchange,  ///< --overwrite where the file system cannot exchange two names
};

std::string name_of(Way way) {
  switch (way) {
    case Way::kRename: return "Rename";
    case Way::kExchange: return "Exchange";
    case Way::kMountEmpty: return "MountEmpty";
    case Way::kMount: return "Mount";
    case Way::kNoExchange: return "NoExchange";
  }
  return {};
}

bool overwrites(Way way) { return way != Way::kRename && way != Way::kMountEmpty; }
bool is_by_files(Way way) { return way != Way::kRename && way != Way::kExchange; }

constexpr CallKind kKinds[] = {CallKind::kOpen,  CallKind::kRead,   CallKind::kWrite,
                               CallKind::kFsync, CallKind::kRename, CallKind::kClose,
                               CallKind::kMkdir, CallKind::kUnlink, CallKind::kReserve};
const Fault kFail{CallKind::kNone, 0, FaultAction::kFail, EIO};
const Fault kFull{CallKind::kNone, 0, FaultAction::kFail, ENOSPC};
const Fault kShort{CallKind::kNone, 0, FaultAction::kShort, 0};
const Fault kDelay{CallKind::kNone, 0, FaultAction::kDelay, 0};
const Fault kKill{CallKind::kNone, 0, FaultAction::kKill, 0};

using Content = std::map<std::string, std::string>;  // of a folder, by path below it

/// Every file below a folder but what a merge hides there; nothing if there is no folder.
Content content_of(const std::string& folder) {
  Content content = testing::read_folder(folder);
  std::erase_if(content, [](const auto& file) { return file.first.starts_with(".shardkit"); });
  return content;
}

std::string names_in(const Content& content) {
  std::string names;
  for (const auto& [path, text] : content) names += path + " ";
  return names;
}

/// Two ranks' checkpoint, a sidecar in a subfolder, and an old model where there is one to replace.
class FaultsTest : public ::testing::Test {
 protected:
  FaultsTest() {
    options_.local_dir = dir_ / "ckpt";
    options_.target_dir = dir_ / "out";
    options_.dtype.kind = hf::DTypeChoice::Kind::kKeep;
    options_.max_shard_bytes = 130;
    options_.transfer.threads = 1;
    other_ = options_;
    other_.dtype = {};
    write_file(dir_ / "ckpt/huggingface/config.json", R"({"model_type": "llama"})");
    write_file(dir_ / "ckpt/huggingface/tokenizer/vocab.txt", "a\nb\n");
  }

  /// Three tensors of `rows` rows for each of the two ranks.
  void write_checkpoint(std::int64_t rows = 2) {
    const auto sharding = testing::make_sharding({2}, {0, 1}, {Shard{0}}, {2 * rows, 4});
    std::vector<Value> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      Dict dict;
      for (int t = 0; t < 3; ++t) {
        std::vector<float> values(static_cast<std::size_t>(rows) * 4);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<float>(i % 4096 + static_cast<std::size_t>(rank * 7 + t));
        const Tensor local = testing::float_tensor({rows, 4}, values);
        dict.items.emplace_back(Value("t" + std::to_string(t)), DTensor{local, sharding});
      }
      ranks.emplace_back(std::move(dict));
    }
    testing::write_ranks(dir_ / "ckpt", ranks);
    inputs_ = inputs();
    new_ = reference(options_);
    other_new_ = reference(other_);
  }

  Content reference(MergeOptions options) {
    options.target_dir = dir_ / "reference";
    FSDPModelMerger(posix_file_system(), options).merge_and_save().value();
    const Content content = content_of(options.target_dir);
    std::filesystem::remove_all(options.target_dir);
    return content;
  }

  /// What no merge may change: content and time of every input.
  std::map<std::string, std::pair<std::string, std::int64_t>> inputs() const {
    std::map<std::string, std::pair<std::string, std::int64_t>> all;
    for (const auto& [path, text] : content_of(dir_ / "ckpt"))
      all[path] = {text, posix_file_system().info(dir_ / ("ckpt/" + path)).value().modified_ns};
    return all;
  }

  /// The folder as it is before a merge.
  void prepare(Way way) {
    std::filesystem::remove_all(dir_ / "out");
    std::filesystem::remove_all(dir_ / ".out.shardkit-stage");
    std::filesystem::remove_all(dir_ / ".out.shardkit-lock");
    old_.clear();
    if (overwrites(way))
      old_ = {{"model.safetensors.index.json", "old"},
              {"model-00001-of-00002.safetensors", "old"},
              {"config.json", "old"},
              {"sub/of/old", "old"}};
    for (const auto& [path, text] : old_) write_file(dir_ / ("out/" + path), text);
    if (way == Way::kMountEmpty) std::filesystem::create_directory(dir_ / "out");
  }

  void set(FaultyCalls& calls, Way way) const {
    if (way == Way::kMount || way == Way::kMountEmpty) calls.mount_point = dir_ / "out";
    calls.has_exchange = way != Way::kNoExchange;
  }

  Result<MergeReport> merge(FaultyCalls& calls, Way way, MergeOptions options) const {
    set(calls, way);
    if (overwrites(way)) options.existing = ExistingTarget::kReplace;
    const auto fs = make_posix_file_system(calls);
    return FSDPModelMerger(*fs, options).merge_and_save();
  }

  Result<MergeReport> merge(Way way, const MergeOptions& options) const {
    FaultyCalls calls;
    return merge(calls, way, options);
  }

  /// Merges in a process that a fault kills. @return whether it did
  bool merge_until_killed(Fault fault, Way way, const MergeOptions& options) const {
    fault.action = FaultAction::kKill;
    const pid_t child = ::fork();
    if (child == 0) {
      FaultyCalls calls(fault);
      ::_exit(merge(calls, way, options).ok() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status);
  }

  struct Outcome {
    bool triggered = false;
    std::optional<Result<MergeReport>> result;  // nothing: killed
  };

  Outcome merge_with(Fault fault, Way way, const MergeOptions& options) const {
    if (fault.action == FaultAction::kKill)
      return {merge_until_killed(fault, way, options), std::nullopt};
    FaultyCalls calls(fault);
    auto result = merge(calls, way, options);
    return {calls.triggered(), std::move(result)};
  }

  bool has_stage() const {
    return std::filesystem::exists(dir_ / ".out.shardkit-stage") ||
           std::filesystem::exists(dir_ / "out/.shardkit-stage");
  }

  bool has_identity() const {
    return std::filesystem::exists(dir_ / ".out.shardkit-stage/identity") ||
           std::filesystem::exists(dir_ / "out/.shardkit-stage/identity");
  }

  void expect_no_leftover() const {
    for (const char* name :
         {".out.shardkit-stage", ".out.shardkit-lock", "out/.shardkit-stage", "out/.shardkit-lock"})
      EXPECT_FALSE(std::filesystem::exists(dir_ / name)) << name;
  }

  /// A loader finds no mixture, whatever went before. By files, "no model" is a folder without the
  /// files that loaders look for; else it is no folder.
  void expect_whole_or_nothing(Way way) const {
    const Content found = content_of(dir_ / "out");
    EXPECT_TRUE(inputs() == inputs_) << "an input changed";
    if (found == new_ || found == other_new_ || found == old_) return;
    const bool loadable =
        found.contains("model.safetensors") || found.contains("model.safetensors.index.json");
    EXPECT_TRUE(is_by_files(way)) << "neither old nor new: " << names_in(found);
    EXPECT_FALSE(loadable) << "a mixture that loads: " << names_in(found);
  }

  /// The same command, or another, ends the work and leaves nothing else.
  void expect_merges(Way way, const MergeOptions& options, const Content& expected) {
    const Content before = content_of(dir_ / "out");
    const bool is_done = before == new_ || before == other_new_;
    // As long as the stage tells that this very command made the model, it is not refused.
    const bool is_refused = !overwrites(way) && is_done && (!has_identity() || before != expected);
    const auto result = merge(way, options);
    const Content after = content_of(dir_ / "out");
    if (is_refused) {
      EXPECT_THAT(result, Fails(ErrorCode::kInvalidArgument, "--overwrite"));
      EXPECT_TRUE(after == before) << names_in(after);
    } else {
      EXPECT_TRUE(result.ok()) << result.error().message();
      EXPECT_TRUE(after == expected) << names_in(after);
    }
    expect_no_leftover();
  }

  /// Goes through every k of every kind, until no call is left to fail.
  /// @param is_triggered  makes the fault; says whether the call came
  /// @return how many faults there were, by kind
  std::map<CallKind, int> for_every_fault(const std::vector<Fault>& actions,
                                          const std::function<bool(const Fault&)>& is_triggered) {
    std::map<CallKind, int> counts;
    for (const CallKind kind : kKinds)
      for (Fault fault : actions) {
        if (fault.action == FaultAction::kShort && kind != CallKind::kRead &&
            kind != CallKind::kWrite)
          continue;
        if (fault.number == ENOSPC && kind != CallKind::kOpen && kind != CallKind::kWrite &&
            kind != CallKind::kReserve)
          continue;
        fault.kind = kind;
        for (fault.k = 1;; ++fault.k) {
          SCOPED_TRACE(::testing::Message()
                       << "kind " << static_cast<int>(kind) << ", k " << fault.k << ", action "
                       << static_cast<int>(fault.action) << ", errno " << fault.number);
          if (!is_triggered(fault)) break;
          ++counts[kind];
          if (HasFailure()) return counts;
        }
      }
    return counts;
  }

  testing::TempDir dir_{std::filesystem::exists("/dev/shm") ? "/dev/shm" : ""};
  MergeOptions options_;
  MergeOptions other_;  // another command
  Content old_;
  Content new_;
  Content other_new_;
  std::map<std::string, std::pair<std::string, std::int64_t>> inputs_;
};

class EveryFaultTest : public FaultsTest, public ::testing::WithParamInterface<Way> {};

TEST_P(EveryFaultTest, TheTargetIsWholeAndTheSameCommandEndsTheWork) {
  const Way way = GetParam();
  write_checkpoint();
  ASSERT_EQ(new_.count("model-00002-of-00002.safetensors"), 1u);
  ASSERT_EQ(new_.count("tokenizer/vocab.txt"), 1u);
  auto counts = for_every_fault({kFail, kFull, kShort, kDelay, kKill}, [&](const Fault& fault) {
    prepare(way);
    const Outcome outcome = merge_with(fault, way, options_);
    if (!outcome.triggered) return false;
    expect_whole_or_nothing(way);
    const bool done = outcome.result && outcome.result->ok();
    EXPECT_TRUE(!done || content_of(dir_ / "out") == new_) << "no error, but not complete";
    if (!done || has_stage()) expect_merges(way, options_, new_);
    return true;
  });
  for (const CallKind kind : kKinds) EXPECT_GT(counts[kind], 0) << static_cast<int>(kind);
}

TEST_P(EveryFaultTest, AnotherCommandEndsItsOwn) {
  const Way way = GetParam();
  write_checkpoint();
  for_every_fault({kKill}, [&](const Fault& fault) {
    prepare(way);
    if (!merge_with(fault, way, options_).triggered) return false;
    expect_merges(way, other_, other_new_);
    return true;
  });
}

TEST_P(EveryFaultTest, CleanupRemovesWhatAKilledMergeLeft) {
  const Way way = GetParam();
  write_checkpoint();
  for_every_fault({kKill}, [&](const Fault& fault) {
    prepare(way);
    if (!merge_with(fault, way, options_).triggered) return false;
    FaultyCalls calls;
    set(calls, way);
    const auto fs = make_posix_file_system(calls);
    const Status status = FSDPModelMerger(*fs, options_).cleanup();
    EXPECT_TRUE(status.ok()) << status.error().message();
    expect_no_leftover();
    expect_whole_or_nothing(way);
    return true;
  });
}

/// The second of two faults: while a killed publication is ended, or undone.
TEST_P(EveryFaultTest, WhileAKilledPublicationIsTakenUp) {
  const Way way = GetParam();
  write_checkpoint();
  for (const bool same : {true, false})
    for (const int renames : {1, 3}) {
      SCOPED_TRACE(::testing::Message() << "killed at rename " << renames << ", then "
                                        << (same ? "the same" : "another") << " command");
      const Fault first{CallKind::kRename, renames};
      prepare(way);
      if (!merge_until_killed(first, way, options_)) continue;
      for_every_fault({kFail, kKill}, [&](const Fault& fault) {
        prepare(way);
        merge_until_killed(first, way, options_);
        const Outcome outcome = merge_with(fault, way, same ? options_ : other_);
        if (!outcome.triggered) return false;
        expect_whole_or_nothing(way);
        const bool done = outcome.result && outcome.result->ok();
        if (!done || has_stage()) expect_merges(way, options_, new_);
        return true;
      });
      if (HasFailure()) return;
    }
}

/// Three files of several blocks, of which a killed merge has written some.
class ResumeTest : public FaultsTest {
 protected:
  ResumeTest() {
    options_.max_shard_bytes = 12 << 20;
    write_checkpoint(384 << 10);
  }

  /// Blocks that are written: two a file, one of 8 MiB and one of 4 MiB and a header. Each part of
  /// 1 MiB is a write, and so is the block's journal record.
  static constexpr int kBlocks = 6;
  static constexpr int kFirstParts = 8;
  static constexpr int kSecondParts = 5;
  /// After the lock's line and the stage's identity.
  static int write_of_block(int block) {
    return 3 + block / 2 * (kFirstParts + kSecondParts + 2) + block % 2 * (kFirstParts + 1);
  }
  static int write_of_record(int block) {
    return write_of_block(block) + (block % 2 == 0 ? kFirstParts : kSecondParts);
  }

  std::string stage_file(const std::string& name) const {
    return dir_ / (".out.shardkit-stage/" + name);
  }

  static void flip_byte(const std::string& path, std::size_t at) {
    std::string text = testing::read_file(path);
    text.at(at) ^= 1;
    write_file(path, text);
  }

  /// The same command again; it must keep so many blocks and be complete.
  void expect_kept(std::uint64_t blocks) {
    struct CountingCalls : FaultyCalls {
      std::atomic<int> records = 0;
      ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t offset) override {
        if (bytes == 32) ++records;
        return FaultyCalls::pwrite(fd, data, bytes, offset);
      }
    } calls;
    const auto report = merge(calls, Way::kRename, options_);
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->blocks_kept, blocks);
    EXPECT_EQ(calls.records, kBlocks - static_cast<int>(blocks));
    EXPECT_TRUE(content_of(dir_ / "out") == new_);
    expect_no_leftover();
  }
};

TEST_F(ResumeTest, AfterAKillAtAnyWriteTheBlocksBeforeItAreKept) {
  for (int block = 0; block < kBlocks; ++block)
    for (const int write :
         {write_of_block(block), write_of_block(block) + 3, write_of_record(block)}) {
      SCOPED_TRACE(::testing::Message() << "block " << block << ", write " << write);
      prepare(Way::kRename);
      ASSERT_TRUE(merge_until_killed({CallKind::kWrite, write}, Way::kRename, options_));
      expect_kept(static_cast<std::uint64_t>(block));
      if (HasFailure()) return;
    }
}

TEST_F(ResumeTest, AKillDuringTheResumeLosesNothing) {
  prepare(Way::kRename);
  ASSERT_TRUE(merge_until_killed({CallKind::kWrite, write_of_block(3)}, Way::kRename, options_));
  // The second run writes the lock's line, but no identity; then block 3 and its record.
  constexpr int kWriteOfBlock4 = 1 + kSecondParts + 1 + 1;
  ASSERT_TRUE(merge_until_killed({CallKind::kWrite, kWriteOfBlock4}, Way::kRename, options_));
  expect_kept(4);
}

TEST_F(ResumeTest, AFlippedByteIsWrittenAnew) {
  prepare(Way::kRename);
  ASSERT_TRUE(merge_until_killed({CallKind::kWrite, write_of_block(4)}, Way::kRename, options_));
  flip_byte(stage_file("content/model-00001-of-00003.safetensors"), (8 << 20) + 5);
  expect_kept(3);
}

TEST_F(ResumeTest, ATornOrFlippedRecordAndThoseAfterItAreIgnored) {
  prepare(Way::kRename);
  ASSERT_TRUE(merge_until_killed({CallKind::kWrite, write_of_block(4)}, Way::kRename, options_));
  std::filesystem::resize_file(stage_file("blocks"), 3 * 32 + 31);
  expect_kept(3);
  prepare(Way::kRename);
  ASSERT_TRUE(merge_until_killed({CallKind::kWrite, write_of_block(4)}, Way::kRename, options_));
  flip_byte(stage_file("blocks"), 32 + 16);
  expect_kept(1);
}

TEST_F(ResumeTest, AFileThatLostItsEndIsWrittenAnew) {
  prepare(Way::kRename);
  ASSERT_TRUE(merge_until_killed({CallKind::kWrite, write_of_block(4)}, Way::kRename, options_));
  std::filesystem::resize_file(stage_file("content/model-00002-of-00003.safetensors"), 100);
  expect_kept(2);
}

TEST_F(ResumeTest, ChangedInputsDiscardTheStageAndSaySo) {
  const std::string shard = dir_ / "ckpt/model_world_size_2_rank_1.pt";
  for (const std::string& changed : {shard, dir_ / "ckpt/huggingface/config.json"}) {
    prepare(Way::kRename);
    ASSERT_TRUE(merge_until_killed({CallKind::kWrite, write_of_block(4)}, Way::kRename, options_));
    std::filesystem::last_write_time(changed, std::filesystem::file_time_type::clock::now());
    const auto report = merge(Way::kRename, options_);
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->blocks_kept, 0u);
    EXPECT_THAT(report->notes, ::testing::Contains(::testing::HasSubstr("was discarded")))
        << changed;
    expect_no_leftover();
  }
}

TEST_F(ResumeTest, AShardThatShrinksWhileItIsReadIsAnError) {
  struct ShrinkingCalls : FaultyCalls {
    std::string path;
    int reads = 0;
    ssize_t pread(int fd, void* data, std::size_t bytes, off_t offset) override {
      if (bytes > (1 << 18) && ++reads == 2) std::filesystem::resize_file(path, 1 << 20);
      return FaultyCalls::pread(fd, data, bytes, offset);
    }
  } calls;
  prepare(Way::kRename);
  calls.path = dir_ / "ckpt/model_world_size_2_rank_1.pt";
  EXPECT_THAT(merge(calls, Way::kRename, options_),
              Fails(ErrorCode::kIo, "the file ends too early"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
  expect_no_leftover();
}

TEST_F(ResumeTest, AShardThatIsTouchedWhileItIsReadIsAnError) {
  struct TouchingCalls : FaultyCalls {
    std::string path;
    int writes = 0;
    ssize_t pwrite(int fd, const void* data, std::size_t bytes, off_t offset) override {
      if (bytes == (1 << 20) && ++writes == 2)
        std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now());
      return FaultyCalls::pwrite(fd, data, bytes, offset);
    }
  };
  for (const char* name :
       {"ckpt/model_world_size_2_rank_1.pt", "ckpt/huggingface/tokenizer/vocab.txt"}) {
    TouchingCalls calls;
    calls.path = dir_ / name;
    prepare(Way::kRename);
    EXPECT_THAT(merge(calls, Way::kRename, options_),
                Fails(ErrorCode::kIo, "changed while it was merged"));
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
    expect_no_leftover();
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, EveryFaultTest,
                         ::testing::Values(Way::kRename, Way::kExchange, Way::kMountEmpty,
                                           Way::kMount, Way::kNoExchange),
                         [](const auto& way) { return name_of(way.param); });

}  // namespace
}  // namespace shardkit
