// Addresses and sockets, from the system's calls.
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "shardkit/collective/gloo/network_internal.h"

namespace shardkit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPauseOfNames = std::chrono::milliseconds(250);

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

SocketAddress address_of_end(const Socket& socket, decltype(::getsockname)* end) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (end(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    address.length = 0;
  return address;
}

// At a port of those that the system gives to whoever connects, where nobody listens, a connection
// with this very host may get that port, and is then answered by itself.
bool is_connected_with_itself(const Socket& socket) {
  const SocketAddress here = address_of_end(socket, ::getsockname);
  const SocketAddress there = address_of_end(socket, ::getpeername);
  return here.length > 0 && here.length == there.length &&
         std::memcmp(&here.storage, &there.storage, here.length) == 0;
}

void set_on(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.fd(), level, option, &value, sizeof(value));
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

Result<std::vector<SocketAddress>> resolve_until(const std::string& host, int port,
                                                 NetworkDeadline deadline) {
  for (;;) {
    auto addresses = resolve(host, port);
    if (addresses.ok() || host.empty() || Clock::now() + kPauseOfNames >= deadline)
      return addresses;
    std::this_thread::sleep_for(kPauseOfNames);
  }
}

Result<std::string> address_of_interface(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return socket_error("the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* each = list; each; each = each->ifa_next)
      if (each->ifa_addr && each->ifa_addr->sa_family == family && interface == each->ifa_name)
        return make_address(each->ifa_addr,
                            family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))
            .text();
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("this host has no network interface '{}' with an address", interface));
}

Result<std::string> own_address_of(const std::string& host) {
  auto addresses = resolve(host, 0);
  if (!addresses.ok()) return Error(ErrorCode::kInvalidArgument, addresses.error().what());
  for (const SocketAddress& each : *addresses)
    if (can_bind(each)) return each.text();
  return Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is no address of this host", host));
}

Result<std::string> own_address_towards(std::span<const SocketAddress> others) {
  for (const SocketAddress& other : others) {
    // A datagram socket is connected without a word on the wire.
    const Socket socket(::socket(other.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.fd() >= 0 && ::connect(socket.fd(), other.get(), other.length) == 0)
      return address_of_end(socket, ::getsockname).text();
  }
  return socket_error("no way to " + others.back().text());
}

std::string default_own_address() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0)
    if (auto address = own_address_of(name.data()); address.ok()) return *address;
  return "127.0.0.1";
}

std::int64_t number_of_this_host() {
  // A system since its start, and one of its networks.
  std::string host;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), host);
  struct stat network {};
  if (host.empty() || ::stat("/proc/self/ns/net", &network) != 0) return kUnknownHost;
  host += std::to_string(network.st_ino);
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : host) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return static_cast<std::int64_t>(hash);
}

bool wait_for(std::vector<pollfd>& sockets, NetworkDeadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    const int ready = ::poll(sockets.data(), sockets.size(),
                             static_cast<int>(std::min<std::int64_t>(left, 60000)));
    if (ready > 0) return true;
  }
}

Result<Socket> listen_everywhere(int port) {
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  Error failed(ErrorCode::kIo, "");
  for (const int family : {AF_INET6, AF_INET}) {
    SocketAddress any;
    any.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    any.storage.ss_family = static_cast<sa_family_t>(family);
    reinterpret_cast<sockaddr_in*>(&any.storage)->sin_port =
        htons(static_cast<std::uint16_t>(port));
    Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    set_on(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (family == AF_INET6) set_on(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (socket.fd() >= 0 && ::bind(socket.fd(), any.get(), any.length) == 0 &&
        ::listen(socket.fd(), SOMAXCONN) == 0)
      return socket;
    const bool taken = errno == EADDRINUSE;
    failed = socket_error(fmt::format("rank 0 cannot listen at port {} (MASTER_PORT)", port));
    if (taken) break;
  }
  return failed;
}

Result<Socket> connect_with_first(std::span<const SocketAddress> addresses,
                                  NetworkDeadline deadline) {
  bool tried = false;
  for (const SocketAddress& address : addresses) {
    Socket socket(
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.fd() < 0) continue;
    tried = true;
    // Whoever wants to listen there is not kept from it while this is connected with itself.
    set_on(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    int failed = ::connect(socket.fd(), address.get(), address.length) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
      std::vector<pollfd> one{{socket.fd(), POLLOUT, 0}};
      socklen_t length = sizeof(failed);
      if (wait_for(one, deadline))
        ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &failed, &length);
    }
    if (failed != 0) continue;
    if (!is_connected_with_itself(socket)) return socket;
    // Reset, so that the port is free at once.
    const linger none{1, 0};
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  }
  if (!tried) return socket_error("no socket to connect with " + addresses.back().text());
  return Error(ErrorCode::kPeer, "nobody listens");
}

}  // namespace shardkit
