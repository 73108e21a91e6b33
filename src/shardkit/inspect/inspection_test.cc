#include "shardkit/inspect/inspection.h"

#include <gtest/gtest.h>

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

TEST(Inspect, ADeviceIsNoCheckpoint) {
  EXPECT_THAT(inspect(posix_file_system(), "/dev/null"),
              testing::Fails(ErrorCode::kInvalidArgument,
                             "neither a file nor a folder: file '/dev/null'"));
}

}  // namespace
}  // namespace shardkit
