// Cards: the host, the address that all doors have in common, the sequence and the port of each.
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "shardkit/collective/gloo/card_internal.h"
#include "shardkit/collective/gloo/network_internal.h"
#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

constexpr std::size_t kAddressBytes = sizeof(sockaddr_storage);
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

in_port_t port_of(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
  const auto number = ntohl(reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr);
  return number >> 24 == IN_LOOPBACKNET;
}

Result<std::int64_t> host_on_card(std::string_view card) { return MessageReader(card).number(); }

}  // namespace

std::string make_card(std::span<const Door> doors, std::int64_t host) {
  sockaddr_storage common{};
  for (const Door& door : doors)
    if (door.address.ss_family != AF_UNSPEC) common = door.address;
  MessageWriter out;
  out.put(host);
  out.put(std::string_view(reinterpret_cast<const char*>(&common), kAddressBytes));
  for (const Door& door : doors) {
    out.put(door.sequence);
    out.put(std::int64_t{port_of(door.address)});
  }
  return std::move(out).take();
}

Result<Door> door_on_card(std::string_view card, int rank) {
  MessageReader in(card);
  SHARDKIT_TRY(in.number());
  SHARDKIT_ASSIGN(const std::string address, in.text());
  if (address.size() != kAddressBytes)
    return Error(ErrorCode::kPeer, "another rank's network address has the length of none")
        .expected(fmt::format("{} bytes", kAddressBytes))
        .found(std::to_string(address.size()));
  Door door;
  std::memcpy(&door.address, address.data(), kAddressBytes);
  for (int i = 0; i <= rank; ++i) {
    SHARDKIT_ASSIGN(door.sequence, in.number());
    SHARDKIT_ASSIGN(const std::int64_t port, in.number_up_to(UINT16_MAX));
    reinterpret_cast<sockaddr_in*>(&door.address)->sin_port = static_cast<in_port_t>(port);
  }
  return door;
}

Status check_addresses(std::span<const std::string> cards) {
  std::vector<std::int64_t> hosts;
  for (const std::string& card : cards) {
    SHARDKIT_ASSIGN(const std::int64_t host, host_on_card(card));
    hosts.push_back(host);
  }
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    SHARDKIT_ASSIGN(const Door door, door_on_card(cards[rank], 0));
    const auto other = std::find_if(hosts.begin(), hosts.end(), [&](std::int64_t host) {
      return host != hosts[rank] && host != kUnknownHost;
    });
    if (hosts[rank] == kUnknownHost || other == hosts.end() || !is_loopback(door.address)) continue;
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("rank {} has the address of its host's loopback, and rank {} is on "
                             "another host: say by which network interface ranks shall connect "
                             "(GlooOptions::interface or GLOO_SOCKET_IFNAME)",
                             rank, other - hosts.begin()));
  }
  return {};
}

}  // namespace shardkit
