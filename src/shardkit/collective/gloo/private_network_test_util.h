// A network of a test's own, where the system lets it make one.
#pragma once

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "shardkit/collective/gloo/processes_test_util.h"

namespace shardkit::testing {

/// From now on this process, and those that it forks, have a network with a loopback alone, and
/// what they mount is nobody else's. @error kUnsupported  it may not
inline Status enter_private_network() {
  constexpr std::string_view kLoopback = "lo";
  const Error may_not(ErrorCode::kUnsupported,
                      "this process may not make a network of its own (only root may: "
                      "CAP_SYS_ADMIN, CAP_NET_ADMIN)");
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return may_not;
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::copy(kLoopback.begin(), kLoopback.end(), request.ifr_name);
  request.ifr_flags = IFF_UP;
  const bool is_up = ::ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  const bool is_refused = !is_up && errno == EPERM;
  ::close(fd);
  if (is_refused) return may_not;
  return expect(is_up, "a loopback that is up");
}

/// What `fn` returns in a process of its own that has a private network.
inline Status run_in_private_network(const std::function<Status()>& fn) {
  return run_processes(1, [&](int) -> Status {
    SHARDKIT_TRY(enter_private_network());
    return fn();
  })[0];
}

/// Ends a test that could not have the network it needs: skipped, or failed where
/// SHARDKIT_REQUIRE_NETWORKS is set, as in what must pass before a change lands.
#define SHARDKIT_SKIP_WITHOUT_NETWORK(status)                                    \
  if (!(status).ok() && (status).error().code() == ErrorCode::kUnsupported) {    \
    if (std::getenv("SHARDKIT_REQUIRE_NETWORKS"))                                \
      FAIL() << "SHARDKIT_REQUIRE_NETWORKS is set: " << (status).error().what(); \
    GTEST_SKIP() << "NOT RUN: " << (status).error().what();                      \
  }

}  // namespace shardkit::testing
