// The conformance suite of process groups: what a backend must hand over to be put to it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"

namespace shardkit::testing {

/// What one rank does. It may run in another process: it checks by itself, with expect(), and tells
/// only by its Status.
using RankFn = std::function<Status(ProcessGroup&)>;

struct CollectiveBackend {
  std::string name;
  /// Runs the function as each rank of a new group and returns what each returned. When it has
  /// returned on a rank, that rank is gone.
  std::function<std::vector<Status>(int size, const RankFn&, const GroupOptions&)> run_ranks;
};

inline void PrintTo(const CollectiveBackend& backend, std::ostream* out) { *out << backend.name; }

/// The suites; their tests stand in conformance_test.cc and conformance_failures_test.cc.
class CollectiveSuite : public ::testing::TestWithParam<std::tuple<CollectiveBackend, int>> {
 protected:
  int size() const { return std::get<1>(GetParam()); }
  /// Without options, a minute is enough for every call: a failing test shall end.
  std::vector<Status> run(const RankFn& fn,
                          const GroupOptions& options = {std::chrono::minutes(1)}) const {
    return std::get<0>(GetParam()).run_ranks(size(), fn, options);
  }
  void expect_all_ok(const RankFn& fn) const {
    const std::vector<Status> statuses = run(fn);
    ASSERT_EQ(statuses.size(), static_cast<std::size_t>(size()));
    for (std::size_t i = 0; i < statuses.size(); ++i)
      EXPECT_TRUE(statuses[i].ok()) << "rank " << i << ": " << statuses[i].error().message();
  }
};
class CollectiveData : public CollectiveSuite {};      // any size
class CollectiveFailures : public CollectiveSuite {};  // more than one rank
class CollectiveLarge : public CollectiveSuite {};     // few ranks

/// In a .cc file: puts `backend`, a CollectiveBackend, to all of the suites.
#define SHARDKIT_INSTANTIATE_COLLECTIVE_SUITES(prefix, backend)                                  \
  INSTANTIATE_TEST_SUITE_P(                                                                      \
      prefix, CollectiveData,                                                                    \
      ::testing::Combine(::testing::Values(backend), ::testing::Values(1, 2, 3, 4, 8)),          \
      ::shardkit::testing::collective_test_name);                                                \
  INSTANTIATE_TEST_SUITE_P(                                                                      \
      prefix, CollectiveFailures,                                                                \
      ::testing::Combine(::testing::Values(backend), ::testing::Values(2, 3, 4, 8)),             \
      ::shardkit::testing::collective_test_name);                                                \
  INSTANTIATE_TEST_SUITE_P(prefix, CollectiveLarge,                                              \
                           ::testing::Combine(::testing::Values(backend), ::testing::Values(2)), \
                           ::shardkit::testing::collective_test_name)

inline std::string collective_test_name(
    const ::testing::TestParamInfo<std::tuple<CollectiveBackend, int>>& info) {
  return "Of" + std::to_string(std::get<1>(info.param));
}

inline Status expect(bool holds, const std::string& what) {
  if (holds) return {};
  return Error(ErrorCode::kInternal, "expected: " + what);
}

/// The bytes that rank `from` has for rank `to`: no two messages agree in more than a few bytes.
inline std::vector<std::byte> message(int from, int to, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const std::size_t value =
        static_cast<std::size_t>(from) * 101 + static_cast<std::size_t>(to) * 37 + i * 7 + i / 251;
    data[i] = static_cast<std::byte>(value & 0xff);
  }
  return data;
}

/// What stands in a buffer that has not been filled yet.
inline constexpr std::byte kUntouched{0xEE};

inline bool untouched(const std::vector<std::byte>& data) {
  for (const std::byte each : data)
    if (each != kUntouched) return false;
  return true;
}

/// A buffer for each rank, and what ProcessGroup takes of them.
struct Buffers {
  std::vector<std::vector<std::byte>> data;

  void add(std::vector<std::byte> buffer) { data.push_back(std::move(buffer)); }
  void add_room(std::size_t bytes) { data.emplace_back(bytes, kUntouched); }
  std::vector<std::span<const std::byte>> readable() const { return {data.begin(), data.end()}; }
  std::vector<std::span<std::byte>> writable() { return {data.begin(), data.end()}; }
};

}  // namespace shardkit::testing
