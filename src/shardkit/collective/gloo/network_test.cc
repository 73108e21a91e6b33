// Addresses of kinds that this host does not have, and where this host listens.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>

#include "shardkit/collective/gloo/network_internal.h"
#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::IsOk;

const auto kSoon = [] { return std::chrono::steady_clock::now() + std::chrono::seconds(10); };

/// As IPv6 is on a host without it.
SocketAddress address_of_no_kind() {
  SocketAddress address;
  address.storage.ss_family = 200;
  address.length = sizeof(sockaddr_in);
  return address;
}

SocketAddress loopback(int port) {
  SocketAddress address;
  auto* internet = reinterpret_cast<sockaddr_in*>(&address.storage);
  internet->sin_family = AF_INET;
  internet->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  internet->sin_port = htons(static_cast<std::uint16_t>(port));
  address.length = sizeof(sockaddr_in);
  return address;
}

/// Listens at a port that is free, below those that the system gives to whoever connects.
Socket listen_somewhere(int* port) {
  for (*port = 10000 + ::getpid() * 64 % 20000;; ++*port)
    if (auto socket = listen_everywhere(*port); socket.ok()) return *std::move(socket);
}

TEST(Network, TheNextAddressIsTriedWhereTheFirstIsOfNoKind) {
  EXPECT_EQ(own_address_towards(std::array{address_of_no_kind(), loopback(1)}).value(),
            "127.0.0.1");
  EXPECT_THAT(own_address_towards(std::array{address_of_no_kind()}), Fails(ErrorCode::kIo, "no way"));
  int port = 0;
  const Socket listener = listen_somewhere(&port);
  EXPECT_THAT(connect_with_first(std::array{address_of_no_kind(), loopback(port)}, kSoon()),
              IsOk());
  EXPECT_THAT(connect_with_first(std::array{address_of_no_kind()}, kSoon()),
              Fails(ErrorCode::kIo, "no socket"));
  EXPECT_THAT(connect_with_first(std::array{loopback(1), address_of_no_kind()}, kSoon()),
              Fails(ErrorCode::kPeer, "nobody listens"));
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
  EXPECT_THAT(connect_with_first(std::array{address}, kSoon()), IsOk());
}

}  // namespace
}  // namespace shardkit
