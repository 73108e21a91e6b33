// Cards: what a rank of a mesh lets the others know, so that they can connect with it.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shardkit/base/result.h"

namespace shardkit {

/// Where one other rank shall connect.
struct Door {
  sockaddr_storage address{};  ///< IPv4 or IPv6
  std::int64_t sequence = 0;   ///< of gloo versions with one port for all
};

/// @param doors  by rank: one address, whatever the port; nobody's stands for this rank itself
/// @param host   number_of_this_host()
/// @return of a length that depends on the number of doors alone
std::string make_card(std::span<const Door> doors, std::int64_t host);

/// The door for `rank`. @error kPeer  it is no card
Result<Door> door_on_card(std::string_view card, int rank);

/// Whether no rank's address is a loopback's while another rank is on another host: it would
/// connect with its own. @param cards  by rank
/// @error kInvalidArgument  the first such rank, and what to do
/// @error kPeer             one is no card
Status check_addresses(std::span<const std::string> cards);

}  // namespace shardkit
