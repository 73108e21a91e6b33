// Two hosts of a test's own, with a cable between them that the test can pull.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "shardkit/collective/gloo/private_network_test_util.h"

namespace shardkit::testing {

/// A request to the kernel's routing socket, put together piece by piece.
class NetlinkRequest {
 public:
  NetlinkRequest(std::uint16_t type, std::uint16_t flags) {
    add(nlmsghdr{0, type, static_cast<std::uint16_t>(flags | NLM_F_REQUEST | NLM_F_ACK), 1, 0});
  }
  template <typename T>
  void add(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  void add_attribute(std::uint16_t type, std::string_view value) {
    add(rtattr{static_cast<std::uint16_t>(RTA_LENGTH(value.size())), type});
    bytes_.append(value);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  /// Puts what `fill` adds into an attribute.
  template <typename Fn>
  void nest(std::uint16_t type, const Fn& fill) {
    const std::size_t begin = bytes_.size();
    add(rtattr{0, type});
    fill();
    const auto length = static_cast<std::uint16_t>(bytes_.size() - begin);
    std::memcpy(bytes_.data() + begin, &length, sizeof(length));
  }

  /// Whether the kernel has done it. @error kUnsupported  it was built without
  Status send() && {
    const auto length = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &length, sizeof(length));
    const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    struct {
      nlmsghdr header;
      nlmsgerr answer;
      std::array<char, 4096> rest;
    } reply{};
    const bool answered = ::send(fd, bytes_.data(), bytes_.size(), 0) == length &&
                          ::recv(fd, &reply, sizeof(reply), 0) > 0;
    ::close(fd);
    if (answered && reply.answer.error == -EOPNOTSUPP)
      return Error(ErrorCode::kUnsupported, "this kernel has no such network devices");
    return expect(answered && reply.header.nlmsg_type == NLMSG_ERROR && reply.answer.error == 0,
                  std::string("a network as asked for; ") + std::strerror(-reply.answer.error));
  }

 private:
  std::string bytes_;
};

/// Host 0 and host 1: networks with a loopback and one end of a cable each.
class TwoHosts {
 public:
  static constexpr const char* kInterface = "cable";

  /// Afterwards this process is on host 0. REQUIRES: run_in_private_network()
  static Result<TwoHosts> make() {
    TwoHosts hosts;
    hosts.networks_[0] = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    SHARDKIT_TRY(enter_private_network());
    hosts.networks_[1] = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    NetlinkRequest cable(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    cable.add(ifinfomsg{});
    cable.add_attribute(IFLA_IFNAME, kInterface);
    cable.nest(IFLA_LINKINFO, [&] {
      cable.add_attribute(IFLA_INFO_KIND, "veth");
      cable.nest(IFLA_INFO_DATA, [&] {
        cable.nest(VETH_INFO_PEER, [&] {
          cable.add(ifinfomsg{});
          cable.add_attribute(IFLA_IFNAME, kInterface);
          cable.add_attribute(IFLA_NET_NS_FD,
                              {reinterpret_cast<const char*>(&hosts.networks_[0]), sizeof(int)});
        });
      });
    });
    SHARDKIT_TRY(std::move(cable).send());
    for (const int host : {1, 0}) {
      SHARDKIT_TRY(hosts.enter(host));
      ifreq request = request_of_interface();
      auto* address = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
      address->sin_family = AF_INET;
      ::inet_pton(AF_INET, address_of(host).c_str(), &address->sin_addr);
      SHARDKIT_TRY(ask_kernel(SIOCSIFADDR, request));
      SHARDKIT_TRY(hosts.plug(host, true));
    }
    return hosts;
  }

  /// Of the cable's end at a host.
  static std::string address_of(int host) { return "10.77.0." + std::to_string(host + 1); }

  /// From now on this thread, and what it starts, is on that host.
  Status enter(int host) const {
    return expect(::setns(networks_[static_cast<std::size_t>(host)], CLONE_NEWNET) == 0,
                  "to enter host " + std::to_string(host));
  }

  /// Pulls the cable's end at a host, or plugs it in: there its ways are gone at once; on the other
  /// host nothing comes any more. Afterwards this thread is on that host.
  Status plug(int host, bool in) const {
    SHARDKIT_TRY(enter(host));
    ifreq request = request_of_interface();
    request.ifr_flags = in ? IFF_UP : 0;
    return ask_kernel(SIOCSIFFLAGS, request);
  }

 private:
  static ifreq request_of_interface() {
    ifreq request{};
    std::strcpy(request.ifr_name, kInterface);
    return request;
  }
  static Status ask_kernel(unsigned long what, ifreq& request) {
    const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool done = ::ioctl(fd, what, &request) == 0;
    ::close(fd);
    return expect(done, "an interface as asked for");
  }

  std::array<int, 2> networks_{-1, -1};  // open until this process and its children end
};

}  // namespace shardkit::testing
