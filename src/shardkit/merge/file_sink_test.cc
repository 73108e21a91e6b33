// A transfer into a stage, ended by a kill and begun again.
#include "shardkit/merge/file_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "shardkit/io/staged_folder.h"
#include "shardkit/merge/block_journal.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

struct Outcome {
  std::uint64_t kept = 0;
  std::map<std::size_t, std::uint64_t> overflows;
};

/// Writes a plan's blocks into the stage beside `target`, and does not publish it.
Outcome write_blocks(const Plan& plan, const std::string& target, bool is_killed) {
  FileSystem& fs = posix_file_system();
  StageOptions options;
  options.durability = Durability::kUnsynced;
  options.identity = "of this test";
  options.key_file = plan.files()[0].name;
  StagedFolder stage = StagedFolder::create(fs, target, options).value();
  BlockJournal journal = BlockJournal::open(fs, stage.control_path("blocks")).value();
  FileSink sink(fs, stage.content_path(""), stage.durability(), journal, plan);
  transfer(plan, fs, sink, {}).value();
  journal.close().value();
  if (is_killed) ::raise(SIGKILL);
  return {sink.blocks_kept(), sink.overflows()};
}

TEST(FileSink, BlocksWithInfiniteValuesAreMadeAgainSoThatAllAreCounted) {
  constexpr std::size_t kElements = kBlockBytes / 2;  // of float16 in a block
  std::vector<float> values(3 * kElements, 1);
  values[kElements + 5] = 70000;
  values[kElements + 6] = -1e30f;
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor all = testing::float_tensor({count}, values);
  Catalog catalog;
  catalog.world_size = 1;
  catalog.tensors.emplace_back().name = "w";
  catalog.tensors[0].shape = all.shape;
  catalog.tensors[0].pieces = {{whole(all.shape), all.strides, 0, all.storage}};
  const Plan plan =
      Plan::make(std::make_shared<const Catalog>(std::move(catalog)),
                 {{"model.safetensors", "", {{0, DType::kFloat16, 0}}, 3 * kBlockBytes}},
                 ReplicaPolicy::kCompare)
          .value();
  const testing::TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) write_blocks(plan, dir / "out", true);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Outcome again = write_blocks(plan, dir / "out", false);
  EXPECT_THAT(again.overflows, ElementsAre(Pair(0, 2)));
  EXPECT_EQ(again.kept, 2u);
}

}  // namespace
}  // namespace shardkit
