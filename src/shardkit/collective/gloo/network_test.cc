// Addresses of kinds that this host does not have, and where this host listens.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <array>

#include "shardkit/collective/gloo/network_internal.h"
#include "shardkit/collective/gloo/network_test_util.h"
#include "shardkit/collective/gloo/processes_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::listen_somewhere;
using testing::loopback;
using testing::soon;

/// As IPv6 is on a host without it.
SocketAddress address_of_no_kind() {
  SocketAddress address;
  address.storage.ss_family = 200;
  address.length = sizeof(sockaddr_in);
  return address;
}

TEST(Network, TheNextAddressIsTriedWhereTheFirstIsOfNoKind) {
  EXPECT_EQ(own_address_towards(std::array{address_of_no_kind(), loopback(1)}).value(),
            "127.0.0.1");
  EXPECT_THAT(own_address_towards(std::array{address_of_no_kind()}),
              Fails(ErrorCode::kIo, "no way"));
  int port = 0;
  const Socket listener = listen_somewhere(&port);
  EXPECT_THAT(connect_with_first(std::array{address_of_no_kind(), loopback(port)}, soon()), IsOk());
  EXPECT_THAT(connect_with_first(std::array{address_of_no_kind()}, soon()),
              Fails(ErrorCode::kIo, "no socket"));
  EXPECT_THAT(connect_with_first(std::array{loopback(1), address_of_no_kind()}, soon()),
              Fails(ErrorCode::kPeer, "nobody listens"));
}

TEST(Network, TheInterfacesOfAProcessThatMayOpenNothingMore) {
  const auto statuses = testing::run_processes(1, [](int) -> Status {
    const rlimit none{0, 0};
    SHARDKIT_TRY(testing::expect(::setrlimit(RLIMIT_NOFILE, &none) == 0, "a limit"));
    SHARDKIT_TRY(address_of_interface("lo"));
    return {};
  });
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kIo, "the network interfaces: Too many open files"));
}

TEST(Network, AListenerIsHeardOverIpv6AsWell) {
  int port = 0;
  const Socket listener = listen_somewhere(&port);
  SocketAddress address;
  auto* internet = reinterpret_cast<sockaddr_in6*>(&address.storage);
  internet->sin6_family = AF_INET6;
  internet->sin6_addr = in6addr_loopback;
  internet->sin6_port = htons(static_cast<std::uint16_t>(port));
  address.length = sizeof(sockaddr_in6);
  const Socket probe(::socket(AF_INET6, SOCK_STREAM, 0));
  SocketAddress here = address;
  reinterpret_cast<sockaddr_in6*>(&here.storage)->sin6_port = 0;
  if (probe.fd() < 0 || ::bind(probe.fd(), here.get(), here.length) != 0)
    GTEST_SKIP() << "no IPv6 here";
  EXPECT_THAT(connect_with_first(std::array{address}, soon()), IsOk());
}

}  // namespace
}  // namespace shardkit
