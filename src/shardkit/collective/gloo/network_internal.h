// Addresses of this host and of others, and sockets that do not wait longer than they should.
#pragma once

#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "shardkit/base/result.h"

namespace shardkit {

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

/// The address of a network interface of this host, IPv4 before IPv6. @error kInvalidArgument
Result<std::string> address_of_interface(const std::string& interface);

/// An address of `host` that is this host's. @error kInvalidArgument
Result<std::string> own_address_of(const std::string& host);

/// The address of this host from which it reaches another. @error kIo
Result<std::string> own_address_towards(const SocketAddress& other);

/// The address of this host's name, or the loopback's where that does not work.
std::string default_own_address();

}  // namespace shardkit
