// Sockets of a test on this host.
#pragma once

#include <netinet/in.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "shardkit/collective/gloo/network_internal.h"

namespace shardkit::testing {

/// A deadline that a test does not come to.
inline NetworkDeadline soon() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

inline SocketAddress loopback(int port) {
  SocketAddress address;
  auto* internet = reinterpret_cast<sockaddr_in*>(&address.storage);
  internet->sin_family = AF_INET;
  internet->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  internet->sin_port = htons(static_cast<std::uint16_t>(port));
  address.length = sizeof(sockaddr_in);
  return address;
}

/// Listens at a port that is free, below those that the system gives to whoever connects.
inline Socket listen_somewhere(int* port) {
  for (*port = 10000 + ::getpid() * 64 % 20000;; ++*port)
    if (auto socket = listen_everywhere(*port); socket.ok()) return *std::move(socket);
}

}  // namespace shardkit::testing
