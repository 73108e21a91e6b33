#include "shardkit/inspect/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::IsOk;

TEST(Inspect, ADeviceIsNoCheckpoint) {
  EXPECT_THAT(
      inspect(posix_file_system(), "/dev/null"),
      testing::Fails(ErrorCode::kInvalidArgument, "neither a file nor a folder: file '/dev/null'"));
}

/// A safetensors file of one byte.
std::string file_of(const std::string& tensor) {
  std::string header = R"({")" + tensor + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(64, ' ');
  return std::string("\x40\0\0\0\0\0\0\0", 8) + header + 'x';
}

TEST(Inspect, AnIndexNamesTheFileOfEachTensor) {
  const testing::TempDir dir;
  const auto inspect_with = [&dir](const std::string& weight_map) {
    testing::write_file(dir / "model.safetensors.index.json",
                        R"({"weight_map": {)" + weight_map + "}}");
    return inspect(posix_file_system(), dir.path());
  };
  testing::write_file(dir / "1.safetensors", file_of("a"));
  testing::write_file(dir / "more/2.safetensors", file_of("b"));

  auto found = inspect_with(R"("a": "1.safetensors", "b": "more/2.safetensors")");
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->problems, IsEmpty());
  EXPECT_EQ(found->tensors.size(), 2u);

  found = inspect_with(R"("a": "more/2.safetensors", "b": "more/2.safetensors")");
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->problems,
              ElementsAre("the index lists 'a' in 'more/2.safetensors', where it is not",
                          "1 tensors are not in the index"));
}

}  // namespace
}  // namespace shardkit
