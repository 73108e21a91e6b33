// Functions that run on each rank, in threads, and what all of them must return.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "shardkit/collective/thread_group.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::testing {

inline void expect_all_ok(int size, const std::function<Status(ProcessGroup&)>& fn) {
  const auto statuses = run_ranks(size, fn);
  for (const Status& status : statuses) ASSERT_THAT(status, IsOk());
}

inline void expect_all_fail(int size, const std::function<Status(ProcessGroup&)>& fn,
                            ErrorCode code, const std::string& text) {
  const auto statuses = run_ranks(size, fn, {std::chrono::seconds(30)});
  for (const Status& status : statuses) EXPECT_THAT(status, Fails(code, text));
}

}  // namespace shardkit::testing
