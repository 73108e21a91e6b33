// Addresses of this host and of others, and sockets that do not wait longer than they should.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"

namespace shardkit {

using NetworkDeadline = std::chrono::steady_clock::time_point;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::string text() const;  ///< numeric, without the port
};

/// Closes what it holds.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error socket_error(std::string what);  ///< kIo, with errno

/// The addresses of a name, as the system would try them; at least one. @error kNotFound
Result<std::vector<SocketAddress>> resolve(const std::string& host, int port);

/// The same as soon as the name has an address: the first processes of a job may be there before
/// their names are. @error kNotFound  not until the deadline
Result<std::vector<SocketAddress>> resolve_until(const std::string& host, int port,
                                                 NetworkDeadline deadline);

/// The address of a network interface of this host, IPv4 before IPv6. @error kInvalidArgument
Result<std::string> address_of_interface(const std::string& interface);

/// An address of `host` that is this host's. @error kInvalidArgument
Result<std::string> own_address_of(const std::string& host);

/// The address of this host from which it reaches another host, by the first of that one's
/// addresses to which there is a way. REQUIRES: at least one @error kIo
Result<std::string> own_address_towards(std::span<const SocketAddress> others);

/// The address of this host's name, or the loopback's where that does not work.
std::string default_own_address();

/// Equal for processes that share a loopback, another one for others; kUnknownHost where the system
/// does not tell.
std::int64_t number_of_this_host();
constexpr std::int64_t kUnknownHost = 0;

/// Waits for one of `sockets`. False: the deadline has passed.
bool wait_for(std::vector<pollfd>& sockets, NetworkDeadline deadline);

/// Listens at a port of all addresses of this host, IPv6 and IPv4. @error kIo
Result<Socket> listen_everywhere(int port);

/// A connection with the first of some addresses where somebody listens. REQUIRES: at least one
/// @error kPeer  nobody listens at any
/// @error kIo    this host has no sockets of their kinds
Result<Socket> connect_with_first(std::span<const SocketAddress> addresses,
                                  NetworkDeadline deadline);

}  // namespace shardkit
