// Meetings in which the other side does what no rank does.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "shardkit/collective/gloo/meeting_internal.h"
#include "shardkit/collective/gloo/network_test_util.h"
#include "shardkit/collective/message.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::testing {
namespace {

using Cards = Result<std::vector<std::string>>;
using std::chrono::milliseconds;

/// What a rank says: a greeting, its rank, the size of the group, its card.
std::string said_by(int rank, int size, const std::string& card) {
  MessageWriter out;
  out.put(std::int64_t{0x314b44524853});  // "SHRDK1"
  out.put(std::int64_t{rank});
  out.put(std::int64_t{size});
  out.put(card);
  return std::move(out).take();
}

/// What rank 0 answers.
std::string answered(std::int64_t code, std::string_view text) {
  MessageWriter out;
  out.put(code);
  out.put(text);
  return std::move(out).take();
}

/// What rank 1 of 2 makes of an answer to its card, after which the connection ends.
Cards meet(const std::string& answer) {
  const std::string card = "card";
  int port = 0;
  const Socket listener = listen_somewhere(&port);
  const std::jthread rank_0([&] {
    std::vector<pollfd> one{{listener.fd(), POLLIN, 0}};
    if (!wait_for(one, soon())) return;
    const Socket guest(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string said = said_by(1, 2, card);
    ::recv(guest.fd(), said.data(), said.size(), MSG_WAITALL);
    ::send(guest.fd(), answer.data(), answer.size(), MSG_NOSIGNAL);
  });
  return meet_at_master({"test", 1, 2, "127.0.0.1", port}, {1, 2, soon()}, card);
}

TEST(Meeting, AnswersThatRank0DoesNotGive) {
  constexpr std::int64_t kAllCame = -1;
  EXPECT_THAT(meet(answered(kAllCame, "CARDcard")), IsOk());
  const std::string making = "making a group of 2 ranks: ";
  EXPECT_THAT(meet(""), Fails(ErrorCode::kPeer, making + "rank 0 did not answer"));
  EXPECT_THAT(meet("HTTP/1.1 400 Bad Request\r\n\r\n"),
              Fails(ErrorCode::kPeer, making + "who answers at 127.0.0.1, port "));
  EXPECT_THAT(meet(answered(kAllCame, "CARDcar")),
              Fails(ErrorCode::kPeer, making + "rank 0 sent cards of another length: expected 8 "
                                               "bytes, found 7"));
}

/// What rank 0 of 2 makes of a rank 1 that says who it is, and reads no answer.
/// @param stays  until rank 0 has ended; else until an answer comes
Cards meet_who_does_not_read(const std::string& card, milliseconds patience, bool stays) {
  int port = 0;
  { const Socket free = listen_somewhere(&port); }
  Cards cards = Error(ErrorCode::kInternal, "has not ended");
  std::atomic<bool> has_ended = false;
  const std::jthread rank_0([&] {
    cards = meet_at_master({"test", 0, 2, "127.0.0.1", port},
                           {0, 2, std::chrono::steady_clock::now() + patience}, card);
    has_ended = true;
  });
  const auto connect = [&] { return connect_with_first(std::array{loopback(port)}, soon()); };
  auto guest = connect();
  for (; !guest.ok() && !has_ended; guest = connect()) std::this_thread::sleep_for(milliseconds(1));
  const std::string said = said_by(1, 2, card);
  for (std::size_t sent = 0; guest.ok() && sent < said.size() && !has_ended;)
    if (const auto more = ::send(guest->fd(), said.data() + sent, said.size() - sent, MSG_NOSIGNAL);
        more > 0)
      sent += static_cast<std::size_t>(more);
  if (guest.ok() && !stays) {
    std::vector<pollfd> one{{guest->fd(), POLLIN, 0}};
    wait_for(one, soon());
    guest = Error(ErrorCode::kInternal, "has left");
  }
  while (!has_ended) std::this_thread::sleep_for(milliseconds(1));
  return cards;
}

TEST(Meeting, ARankThatDoesNotReadTheAnswer) {
  const std::string card(8 << 20, 'c');  // an answer of two of them is more than sockets hold
  // On a slow machine the rank may come too late; then all get more time.
  for (milliseconds patience(500);; patience *= 2) {
    const Cards cards = meet_who_does_not_read(card, patience, true);
    ASSERT_FALSE(cards.ok());
    if (cards.error().what().find("had not come") != std::string::npos) continue;
    EXPECT_THAT(cards,
                Fails(ErrorCode::kPeer, "making a group: rank 1 does not read what it is sent"));
    break;
  }
  EXPECT_THAT(meet_who_does_not_read(card, std::chrono::minutes(1), false),
              Fails(ErrorCode::kIo, "making a group: sending to rank 1: "));
}

TEST(Meeting, ACardThatIsTooLong) {
  const TempDir folder;
  write_file(folder / "rank_1.card", std::string((1 << 20) + 1, 'c'));
  EXPECT_THAT(meet_in_folder(folder.path(), {0, 2, soon()}, "card"),
              Fails(ErrorCode::kPeer,
                    "a rank's card is too long: expected at most 1048576 bytes, "
                    "found 1048577, file '" +
                        (folder / "rank_1.card") + "'"));
}

}  // namespace
}  // namespace shardkit::testing
