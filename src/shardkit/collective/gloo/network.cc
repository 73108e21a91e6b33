// Addresses and sockets, from the system's calls.
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "shardkit/collective/gloo/network_internal.h"

namespace shardkit {
namespace {

bool can_bind(const SocketAddress& address) {
  const Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket.fd() >= 0 && ::bind(socket.fd(), address.get(), address.length) == 0;
}

SocketAddress make_address(const sockaddr* address, socklen_t length) {
  SocketAddress result;
  std::memcpy(&result.storage, address, length);
  result.length = length;
  return result;
}

}  // namespace

std::string SocketAddress::text() const {
  std::array<char, NI_MAXHOST> name{};
  if (::getnameinfo(get(), length, name.data(), name.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  return name.data();
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Error socket_error(std::string what) {
  const int number = errno;
  return Error(ErrorCode::kIo, what + ": " + std::strerror(number)).from_system(number);
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failed != 0)
    return Error(ErrorCode::kNotFound,
                 fmt::format("the host '{}' has no address: {}", host, ::gai_strerror(failed)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = list; each; each = each->ai_next)
    addresses.push_back(make_address(each->ai_addr, each->ai_addrlen));
  return addresses;
}

Result<std::string> address_of_interface(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return socket_error("the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* each = list; each; each = each->ifa_next)
      if (each->ifa_addr && each->ifa_addr->sa_family == family && interface == each->ifa_name)
        return make_address(each->ifa_addr, family == AF_INET ? sizeof(sockaddr_in)
                                                              : sizeof(sockaddr_in6))
            .text();
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("this host has no network interface '{}' with an address", interface));
}

Result<std::string> own_address_of(const std::string& host) {
  auto addresses = resolve(host, 0);
  if (!addresses.ok())
    return Error(ErrorCode::kInvalidArgument, addresses.error().what());
  for (const SocketAddress& each : *addresses)
    if (can_bind(each)) return each.text();
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("'{}' is no address of this host", host));
}

Result<std::string> own_address_towards(const SocketAddress& other) {
  // A datagram socket is connected without a word on the wire.
  const Socket socket(::socket(other.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress own;
  own.length = sizeof(own.storage);
  if (socket.fd() < 0 || ::connect(socket.fd(), other.get(), other.length) != 0 ||
      ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0)
    return socket_error("no way to " + other.text());
  return own.text();
}

std::string default_own_address() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0)
    if (auto address = own_address_of(name.data()); address.ok()) return *address;
  return "127.0.0.1";
}

}  // namespace shardkit
