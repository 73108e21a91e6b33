// ScriptedServer: an HTTP server on a thread, whose answers a test's function gives.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shardkit::hub {

/// Serves one connection at a time and one request a connection. The Python stand-in below
/// tests/hub is the real thing; this is for what a test of a room asks.
class ScriptedServer {
 public:
  struct Request {
    std::string line;     // "GET /path HTTP/1.1"
    std::string headers;  // with the line, as they came
    std::string body;
  };
  /// Returns all of an answer, or "" to cut the connection.
  using Script = std::function<std::string(const Request&)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* place = reinterpret_cast<sockaddr*>(&address);
    if (listener_ < 0 || ::bind(listener_, place, size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, place, &size) != 0)
      throw std::runtime_error("cannot listen on 127.0.0.1");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~ScriptedServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  static std::string answer(const std::string& status, const std::string& body,
                            const std::string& headers = "") {
    return "HTTP/1.1 " + status +
           "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           headers + "\r\n" + body;
  }

 private:
  void serve() {
    for (;;) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      if (!stopping_) handle(connection);
      ::close(connection);
    }
  }

  void handle(int connection) {
    Request request;
    std::string all;
    char buffer[65536];
    const auto read_more = [&] {
      const ssize_t got = ::recv(connection, buffer, sizeof buffer, 0);
      if (got > 0) all.append(buffer, static_cast<std::size_t>(got));
      return got > 0;
    };
    std::size_t end = std::string::npos;
    while ((end = all.find("\r\n\r\n")) == std::string::npos)
      if (!read_more()) return;
    request.headers = all.substr(0, end + 2);
    request.line = all.substr(0, all.find("\r\n"));
    const std::size_t length = request.headers.find("Content-Length: ");
    const std::size_t bytes =
        length == std::string::npos ? 0 : std::stoul(request.headers.substr(length + 16));
    while (all.size() < end + 4 + bytes)
      if (!read_more()) return;
    request.body = all.substr(end + 4, bytes);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const std::string text = script_(request);
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t put = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (put <= 0) return;
      sent += static_cast<std::size_t>(put);
    }
  }

  Script script_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::thread thread_;
};

}  // namespace shardkit::hub
