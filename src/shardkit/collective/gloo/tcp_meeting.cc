// Meeting at the master: rank 0 collects the cards and answers with all of them.
//
// What is sent, each number in 8 bytes, little-endian: by a rank the greeting, its rank, the size,
// the card's length, and the card; by rank 0 a code, a length, and the cards in the order of ranks,
// or the text of the error of that code.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <thread>

#include "shardkit/collective/gloo/meeting_internal.h"
#include "shardkit/collective/gloo/network_internal.h"
#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kGreeting = 0x314b44524853;  // "SHRDK1"
constexpr std::int64_t kAllCame = -1;
constexpr std::size_t kHeaderNumbers = 4;
constexpr std::size_t kReplyNumbers = 2;
constexpr std::size_t kNumberBytes = 8;
constexpr std::size_t kLongestReply = 1 << 30;
constexpr auto kPause = std::chrono::milliseconds(20);

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

Status send_all(const Socket& socket, std::string_view bytes, int to, Clock::time_point deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (!would_wait()) return socket_error(fmt::format("making a group: sending to rank {}", to));
    std::vector<pollfd> one{{socket.fd(), POLLOUT, 0}};
    if (!wait_for(one, deadline))
      return Error(ErrorCode::kPeer,
                   fmt::format("making a group: rank {} does not read what it is sent", to));
  }
  return {};
}

/// Appends what is there; at most up to `limit` bytes in all. False: the other side has closed.
bool receive_some(const Socket& socket, std::string& bytes, std::size_t limit) {
  const std::size_t before = bytes.size();
  bytes.resize(std::min(limit, before + (64 << 10)));
  const auto received = ::recv(socket.fd(), bytes.data() + before, bytes.size() - before, 0);
  const bool wait = received < 0 && would_wait();
  bytes.resize(before + (received > 0 ? static_cast<std::size_t>(received) : 0));
  return received > 0 || wait;
}

/// A process that has connected with rank 0, and what it has said so far.
struct Guest {
  Socket socket;
  std::string bytes;
  bool greeted = false;  // it is no stranger
  int rank = 0;
  std::size_t whole = 0;  // length of header and card, when the header is there
  bool gone = false;

  bool said_all() const { return whole > 0 && bytes.size() == whole; }
};

class Host {
 public:
  Host(const Meeting& meeting, const std::string& card)
      : meeting_(meeting), cards_(static_cast<std::size_t>(meeting.size)) {
    cards_[0] = card;
  }

  Result<std::vector<std::string>> run(const LaunchEnvironment& environment) {
    SHARDKIT_ASSIGN(const Socket listener, listen_everywhere(environment.master_port));
    const Status came = receive_cards(listener);
    const Status told = answer(came);
    SHARDKIT_TRY(came);
    SHARDKIT_TRY(told);
    std::vector<std::string> cards;
    for (auto& card : cards_) cards.push_back(*std::move(card));
    return cards;
  }

 private:
  Status receive_cards(const Socket& listener) {
    while (auto missing = first_missing()) {
      std::vector<pollfd> sockets{{listener.fd(), POLLIN, 0}};
      for (const Guest& guest : guests_)
        // Who has said all may still die while others are awaited.
        sockets.push_back(
            {guest.socket.fd(), static_cast<short>(guest.said_all() ? POLLRDHUP : POLLIN), 0});
      if (!wait_for(sockets, meeting_.deadline))
        return Error(ErrorCode::kPeer,
                     fmt::format("making a group of {} ranks: rank {} had not come in time",
                                 meeting_.size, *missing));
      // In the order in which they came: one that is gone, before one who comes in its stead.
      for (std::size_t i = 0; i < guests_.size(); ++i)
        if (sockets[i + 1].revents != 0) SHARDKIT_TRY(listen_to(guests_[i]));
      std::erase_if(guests_, [](const Guest& guest) { return guest.gone; });
      Socket guest(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (guest.fd() >= 0) guests_.push_back({std::move(guest), {}});
    }
    return {};
  }

  std::optional<int> first_missing() const {
    for (std::size_t i = 0; i < cards_.size(); ++i)
      if (!cards_[i]) return static_cast<int>(i);
    return std::nullopt;
  }

  // Also finds out that it is gone, or no rank.
  Status listen_to(Guest& guest) {
    constexpr std::size_t kHeader = kHeaderNumbers * kNumberBytes;
    const bool open =
        receive_some(guest.socket, guest.bytes, guest.whole > 0 ? guest.whole : kHeader);
    if (!open) {
      guest.gone = true;
      if (guest.said_all()) cards_[static_cast<std::size_t>(guest.rank)].reset();
      return {};
    }
    if (guest.whole == 0 && guest.bytes.size() == kHeader) {
      MessageReader in(guest.bytes);
      const auto greeting = in.number();
      const auto rank = in.number();
      const auto size = in.number();
      const auto length = in.number();
      if (*greeting != kGreeting) {  // somebody else, who hit upon this port
        guest.gone = true;
        return {};
      }
      guest.greeted = true;
      if (*size != meeting_.size || *rank < 1 || *rank >= meeting_.size ||
          *length != static_cast<std::int64_t>(cards_[0]->size()))
        return Error(ErrorCode::kPeer,
                     fmt::format("making a group of {} ranks: one came as rank {} of {}",
                                 meeting_.size, *rank, *size));
      guest.rank = static_cast<int>(*rank);
      guest.whole = kHeader + static_cast<std::size_t>(*length);
    }
    if (guest.said_all()) {
      auto& card = cards_[static_cast<std::size_t>(guest.rank)];
      if (card)
        return Error(ErrorCode::kPeer,
                     fmt::format("making a group of {} ranks: two came as rank {}", meeting_.size,
                                 guest.rank));
      card = guest.bytes.substr(kHeader);
    }
    return {};
  }

  Status answer(const Status& came) {
    MessageWriter out;
    std::string text;
    if (came.ok())
      for (const auto& card : cards_) text += *card;
    else
      text = came.error().what();
    out.put(came.ok() ? kAllCame : static_cast<std::int64_t>(came.error().code()));
    out.put(text);
    const std::string bytes = std::move(out).take();
    // What went wrong is told also after the deadline, if it can be without waiting.
    const auto deadline = came.ok() ? meeting_.deadline : Clock::now();
    Status told;
    for (const Guest& guest : guests_)
      if (guest.greeted)
        if (Status sent = send_all(guest.socket, bytes, guest.rank, deadline); !sent.ok())
          told = sent;
    return told;
  }

  Meeting meeting_;
  std::vector<std::optional<std::string>> cards_;
  std::vector<Guest> guests_;
};

/// Tries again until rank 0 listens.
Result<Socket> connect_with_host(const LaunchEnvironment& environment, const Meeting& meeting) {
  for (;;) {
    // Each time: rank 0 may come again elsewhere.
    SHARDKIT_ASSIGN(const auto addresses, resolve_until(environment.master_address,
                                                        environment.master_port, meeting.deadline));
    auto socket = connect_with_first(addresses, meeting.deadline);
    if (socket.ok() || socket.error().code() != ErrorCode::kPeer) return socket;
    if (Clock::now() + kPause >= meeting.deadline)
      return Error(ErrorCode::kPeer,
                   fmt::format("making a group of {} ranks: rank 0 had not come in time: nobody "
                               "listens at {}, port {}",
                               meeting.size, environment.master_address, environment.master_port));
    std::this_thread::sleep_for(kPause);
  }
}

Result<std::vector<std::string>> be_guest(const LaunchEnvironment& environment,
                                          const Meeting& meeting, const std::string& card) {
  SHARDKIT_ASSIGN(const Socket socket, connect_with_host(environment, meeting));
  MessageWriter out;
  out.put(kGreeting);
  out.put(static_cast<std::int64_t>(meeting.rank));
  out.put(static_cast<std::int64_t>(meeting.size));
  out.put(card);
  SHARDKIT_TRY(send_all(socket, std::move(out).take(), 0, meeting.deadline));

  constexpr std::size_t kHeader = kReplyNumbers * kNumberBytes;
  std::string bytes;
  std::size_t whole = kHeader;
  while (bytes.size() < whole) {
    std::vector<pollfd> one{{socket.fd(), POLLIN, 0}};
    // Rank 0 says at its deadline who is missing: a moment later than ours, if it came later.
    if (!wait_for(one, meeting.deadline + std::chrono::seconds(1)) ||
        !receive_some(socket, bytes, whole))
      return Error(ErrorCode::kPeer,
                   fmt::format("making a group of {} ranks: rank 0 did not answer", meeting.size));
    if (whole == kHeader && bytes.size() == kHeader) {
      MessageReader in(bytes);
      SHARDKIT_TRY(in.number());
      SHARDKIT_ASSIGN(const auto length, in.number());
      if (length < 0 || length > static_cast<std::int64_t>(kLongestReply))
        return Error(
            ErrorCode::kPeer,
            fmt::format("making a group of {} ranks: who answers at {}, port {} is not "
                        "rank 0 (is MASTER_PORT another program's?)",
                        meeting.size, environment.master_address, environment.master_port));
      whole += static_cast<std::size_t>(length);
    }
  }
  MessageReader in(bytes);
  SHARDKIT_ASSIGN(const auto code, in.number());
  SHARDKIT_ASSIGN(const std::string text, in.text());
  if (code != kAllCame) return Error(ErrorCode::kPeer, text);
  if (text.size() != card.size() * static_cast<std::size_t>(meeting.size))
    return Error(ErrorCode::kPeer,
                 fmt::format("making a group of {} ranks: rank 0 sent cards of another length",
                             meeting.size))
        .expected(fmt::format("{} bytes", card.size() * static_cast<std::size_t>(meeting.size)))
        .found(std::to_string(text.size()));
  std::vector<std::string> cards;
  for (std::size_t i = 0; i < text.size(); i += card.size())
    cards.push_back(text.substr(i, card.size()));
  return cards;
}

}  // namespace

Result<std::vector<std::string>> meet_at_master(const LaunchEnvironment& environment,
                                                const Meeting& meeting, const std::string& card) {
  if (meeting.rank == 0) return Host(meeting, card).run(environment);
  return be_guest(environment, meeting, card);
}

}  // namespace shardkit
