#include "shardkit/merge/block_journal.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

class BlockJournalTest : public ::testing::Test {
 protected:
  BlockJournal open() { return BlockJournal::open(posix_file_system(), dir_ / "blocks").value(); }

  testing::TempDir dir_;
};

TEST_F(BlockJournalTest, WhatWasAppendedIsFoundAgain) {
  {
    BlockJournal journal = open();
    journal.append(0, 0, 11).value();
    journal.append(2, 7, 22).value();
    EXPECT_EQ(journal.recorded(0, 0), std::nullopt) << "only what open() found";
    journal.close().value();
  }
  BlockJournal journal = open();
  EXPECT_EQ(journal.recorded(0, 0), 11u);
  EXPECT_EQ(journal.recorded(2, 7), 22u);
  EXPECT_EQ(journal.recorded(2, 6), std::nullopt);
  journal.append(2, 6, 33).value();
  journal.close().value();
  EXPECT_EQ(open().recorded(2, 6), 33u);
}

TEST_F(BlockJournalTest, ARecordThatWasCutOrDamagedEndsIt) {
  {
    BlockJournal journal = open();
    for (std::uint64_t block = 0; block < 3; ++block) journal.append(0, block, block).value();
    journal.close().value();
  }
  std::filesystem::resize_file(dir_ / "blocks", 80);
  EXPECT_EQ(open().recorded(0, 1), 1u);
  EXPECT_EQ(open().recorded(0, 2), std::nullopt);
  {
    BlockJournal journal = open();
    journal.append(0, 9, 99).value();
    journal.close().value();
  }
  EXPECT_EQ(open().recorded(0, 9), 99u) << "appended over the cut record";
  std::string content = testing::read_file(dir_ / "blocks");
  content[20] = static_cast<char>(content[20] ^ 1);
  testing::write_file(dir_ / "blocks", content);
  EXPECT_EQ(open().recorded(0, 0), std::nullopt);
  EXPECT_EQ(open().recorded(0, 9), std::nullopt);
}

}  // namespace
}  // namespace shardkit
