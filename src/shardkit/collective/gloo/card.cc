// Cards: the address that all doors have in common, then the sequence and the port of each.
#include "shardkit/collective/gloo/card_internal.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstring>

#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

constexpr std::size_t kAddressBytes = sizeof(sockaddr_storage);
static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

in_port_t port_of(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
}

}  // namespace

std::string make_card(std::span<const Door> doors) {
  sockaddr_storage common{};
  for (const Door& door : doors)
    if (door.address.ss_family != AF_UNSPEC) common = door.address;
  MessageWriter out;
  out.put(std::string_view(reinterpret_cast<const char*>(&common), kAddressBytes));
  for (const Door& door : doors) {
    out.put(door.sequence);
    out.put(std::int64_t{port_of(door.address)});
  }
  return std::move(out).take();
}

Result<Door> door_on_card(std::string_view card, int rank) {
  MessageReader in(card);
  SHARDKIT_ASSIGN(const std::string address, in.text());
  if (address.size() != kAddressBytes)
    return Error(ErrorCode::kPeer, fmt::format("another rank's address has {} bytes, not {}",
                                               address.size(), kAddressBytes));
  Door door;
  std::memcpy(&door.address, address.data(), kAddressBytes);
  for (int i = 0; i <= rank; ++i) {
    SHARDKIT_ASSIGN(door.sequence, in.number());
    SHARDKIT_ASSIGN(const std::int64_t port, in.number_up_to(UINT16_MAX));
    reinterpret_cast<sockaddr_in*>(&door.address)->sin_port = static_cast<in_port_t>(port);
  }
  return door;
}

}  // namespace shardkit
