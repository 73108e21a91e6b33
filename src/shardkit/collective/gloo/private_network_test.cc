// Meetings in networks that behave as the test wants.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "shardkit/collective/gloo/private_network_test_util.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// The first rank that does not do well.
Status all_well(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) SHARDKIT_TRY(status);
  return {};
}

Status write_to(const std::string& path, std::string_view text, std::ios::openmode mode) {
  std::ofstream file(path, std::ios::out | mode);
  file << text << std::flush;
  return expect(file.good(), "a file that can be written");
}

// Where few ports are given to whoever connects, and MASTER_PORT is one of them, rank 1 is sure to
// get it for one of the many times that it asks whether rank 0 is there.
TEST(PrivateNetwork, AConnectionWithItselfIsNone) {
  const Status status = run_in_private_network([]() -> Status {
    SHARDKIT_TRY(write_to("/proc/sys/net/ipv4/ip_local_port_range", "40000 40015", {}));
    return all_well(run_processes(2, [](int rank) -> Status {
      if (rank == 0) std::this_thread::sleep_for(seconds(2));
      SHARDKIT_ASSIGN(auto group,
                      make_gloo_group({"test", rank, 2, "127.0.0.1", 40000}, gloo_test_options()));
      return group->barrier();
    }));
  });
  SHARDKIT_SKIP_WITHOUT_NETWORK(status);
  EXPECT_THAT(status, IsOk());
}

TEST(PrivateNetwork, AMastersNameThatIsKnownLate) {
  const TempDir folder;
  const std::string hosts = folder / "hosts";
  GlooOptions options;
  options.start_timeout = seconds(20);
  const Status status = run_in_private_network([&]() -> Status {
    SHARDKIT_TRY(write_to(hosts, "127.0.0.1 localhost\n", {}));
    SHARDKIT_TRY(expect(::mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0,
                        "a list of hosts of its own"));
    return all_well(run_processes(3, [&](int rank) -> Status {
      if (rank == 2) {
        std::this_thread::sleep_for(milliseconds(700));
        return write_to(hosts, "127.0.0.1 late.test\n", std::ios::app);
      }
      SHARDKIT_ASSIGN(auto group, make_gloo_group({"test", rank, 2, "late.test", 29400}, options));
      return group->barrier();
    }));
  });
  SHARDKIT_SKIP_WITHOUT_NETWORK(status);
  EXPECT_THAT(status, IsOk());
}

TEST(PrivateNetwork, AMastersNameThatIsNeverKnown) {
  GlooOptions options;
  options.start_timeout = milliseconds(600);
  const auto start = std::chrono::steady_clock::now();
  const Status status = run_in_private_network([&]() -> Status {
    auto group = make_gloo_group({"test", 1, 2, "never.test", 29400}, options);
    return group.ok() ? Status() : group.error();
  });
  SHARDKIT_SKIP_WITHOUT_NETWORK(status);
  EXPECT_THAT(status, Fails(ErrorCode::kNotFound, "the host 'never.test' has no address"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(3));
}

// As on two hosts whose own names lead to 127.0.1.1.
TEST(PrivateNetwork, ALoopbackIsNoAddressForAnotherHost) {
  const TempDir folder;
  const auto statuses = run_processes(3, [&](int rank) -> Status {
    if (rank == 2) SHARDKIT_TRY(enter_private_network());
    const auto start = std::chrono::steady_clock::now();
    auto group = make_gloo_group(folder.path(), rank, 3, gloo_test_options());
    SHARDKIT_TRY(expect(std::chrono::steady_clock::now() - start < seconds(20), "no long wait"));
    return group.ok() ? Status() : group.error();
  });
  SHARDKIT_SKIP_WITHOUT_NETWORK(statuses[2]);
  for (const Status& status : statuses)
    EXPECT_THAT(status, Fails(ErrorCode::kInvalidArgument,
                              "rank 0 has the address of its host's loopback, and rank 2 is on "
                              "another host"));
}

}  // namespace
}  // namespace shardkit::testing
