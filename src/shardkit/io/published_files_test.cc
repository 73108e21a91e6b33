#include "shardkit/io/published_files.h"

#include <gtest/gtest.h>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

TEST(PublishedFiles, ARecordIsReadBack) {
  const auto files = PublishedFiles::from_text("+ sub/a b\n+ key\n- old\nend\n");
  ASSERT_THAT(files, testing::IsOk());
  EXPECT_EQ(files->fresh, (std::vector<std::string>{"sub/a b", "key"}));
  EXPECT_EQ(files->stale, std::vector<std::string>{"old"});
}

TEST(PublishedFiles, ARecordThatIsNotWholeIsNotBelieved) {
  for (const char* text : {"", "end\n", "- old\nend\n", "+ key\n", "+ key", "+ key\nend",
                           "key\nend\n", "+ key\n\nend\n", "+ key\nend\nend\n"})
    EXPECT_THAT(PublishedFiles::from_text(text),
                testing::Fails(ErrorCode::kCorrupt,
                               "the record of which files are to be published is "
                               "damaged"))
        << text;
}

}  // namespace
}  // namespace shardkit
