// Gloo groups: the conformance suites over processes, and what only processes can get wrong.
#include "shardkit/collective/gloo/gloo_group.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "shardkit/collective/gloo/card_internal.h"
#include "shardkit/collective/gloo/network_internal.h"
#include "shardkit/collective/gloo/processes_test_util.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::testing {

const CollectiveBackend kGloo{"gloo", run_gloo_ranks};
SHARDKIT_INSTANTIATE_COLLECTIVE_SUITES(Gloo, kGloo);

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLarge = 96 << 20;

/// A port at which nobody listens now. Below those that Linux gives to whoever connects (from 32768
/// on), or another test's connection could take it; and from a place of this process's own.
int free_port() {
  static int next = 10000 + ::getpid() * 64 % 20000;
  for (;; ++next) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<std::uint16_t>(next));
    const bool is_free =
        ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    if (is_free) return next++;
  }
}

/// Connects with `port` of this host as soon as somebody listens there.
int connect_to(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  for (;;) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
    ::close(fd);
    std::this_thread::sleep_for(milliseconds(1));
  }
}

LaunchEnvironment launched(int rank, int size, int port) {
  return {"test", rank, size, "127.0.0.1", port};
}

GlooOptions hasty(milliseconds start_timeout) {
  GlooOptions options = gloo_test_options();
  options.start_timeout = start_timeout;
  return options;
}

Status all_ranks_are_there(ProcessGroup& group) {
  std::vector<std::byte> seen(static_cast<std::size_t>(group.size()));
  const auto mine = static_cast<std::byte>(group.rank());
  SHARDKIT_TRY(group.all_gather(std::span(&mine, 1), std::span<std::byte>(seen)));
  for (int i = 0; i < group.size(); ++i)
    SHARDKIT_TRY(expect(seen[static_cast<std::size_t>(i)] == std::byte(i), "each rank once"));
  return {};
}

TEST(GlooMeeting, AtTheMaster) {
  for (const int size : {1, 2, 5}) {
    const int port = free_port();
    const auto statuses = run_processes(size, [&](int rank) -> Status {
      // Whoever comes first, waits.
      std::this_thread::sleep_for(milliseconds(rank == 0 ? 100 : 10 * rank));
      SHARDKIT_ASSIGN(auto group, make_gloo_group(launched(rank, size, port), gloo_test_options()));
      SHARDKIT_TRY(expect(group->rank() == rank && group->size() == size, "rank and size"));
      return all_ranks_are_there(*group);
    });
    for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
  }
}

TEST(GlooMeeting, TheAddressIsChosenByTheWayToTheMaster) {
  const int port = free_port();
  const auto statuses = run_processes(2, [&](int rank) -> Status {
    LaunchEnvironment environment = launched(rank, 2, port);
    environment.master_address = "localhost";
    SHARDKIT_ASSIGN(auto group, make_gloo_group(environment, {}));
    return all_ranks_are_there(*group);
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(GlooMeeting, StrangersAreSentAway) {
  const int port = free_port();
  const auto statuses = run_processes(3, [&](int rank) -> Status {
    if (rank == 2) {
      const int silent = connect_to(port);
      const int rude = connect_to(port);
      const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
      if (::send(rude, request.data(), request.size(), MSG_NOSIGNAL) < 0) return {};
      char answer = 0;
      const auto received = ::recv(rude, &answer, 1, 0);
      ::close(silent);
      return expect(received <= 0, "no answer to what is no rank");
    }
    if (rank == 1) std::this_thread::sleep_for(milliseconds(300));
    SHARDKIT_ASSIGN(auto group, make_gloo_group(launched(rank, 2, port), gloo_test_options()));
    return all_ranks_are_there(*group);
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(GlooMeeting, WhoDoesNotComeIsNamed) {
  const int port = free_port();
  const TempDir folder;
  const auto at_master = run_processes(3, [&](int rank) -> Status {
    if (rank == 1) return {};
    SHARDKIT_TRY(make_gloo_group(launched(rank, 3, port), hasty(milliseconds(500))));
    return {};
  });
  EXPECT_THAT(at_master[0], Fails(ErrorCode::kPeer, "rank 1 had not come in time"));
  EXPECT_THAT(at_master[2], Fails(ErrorCode::kPeer, "rank 1 had not come in time"));
  const auto no_master = run_processes(2, [&](int rank) -> Status {
    if (rank == 0) return {};
    SHARDKIT_TRY(make_gloo_group(launched(rank, 2, port), hasty(milliseconds(300))));
    return {};
  });
  EXPECT_THAT(no_master[1],
              Fails(ErrorCode::kPeer, "nobody listens at 127.0.0.1, port " + std::to_string(port)));
  const auto in_folder = run_processes(3, [&](int rank) -> Status {
    if (rank == 1) return {};
    SHARDKIT_TRY(make_gloo_group(folder.path(), rank, 3, hasty(milliseconds(300))));
    return {};
  });
  EXPECT_THAT(in_folder[0], Fails(ErrorCode::kPeer, "rank 1 had not come in time"));
  EXPECT_THAT(in_folder[2], Fails(ErrorCode::kPeer, "rank 1 had not come in time"));
}

// Rank 1 is killed when it has said all, while rank 2 is awaited, and comes again.
TEST(GlooMeeting, WhoDiesWhileOthersAreAwaitedMayComeAgain) {
  const int port = free_port();
  const auto statuses = run_processes(4, [&](int rank) -> Status {
    std::jthread death;
    if (rank == 1)
      death = std::jthread([] {
        std::this_thread::sleep_for(milliseconds(400));
        ::kill(::getpid(), SIGKILL);
      });
    if (rank == 3) std::this_thread::sleep_for(milliseconds(800));
    if (rank == 2) std::this_thread::sleep_for(milliseconds(1200));
    SHARDKIT_ASSIGN(auto group,
                    make_gloo_group(launched(rank == 3 ? 1 : rank, 3, port), hasty(seconds(20))));
    return all_ranks_are_there(*group);
  });
  for (const int rank : {0, 2, 3}) EXPECT_THAT(statuses[static_cast<std::size_t>(rank)], IsOk());
  EXPECT_THAT(statuses[1], Fails(ErrorCode::kInternal, "killed by signal 9"));
}

// Who has left its card late, and then does not connect, gets no time of its own for that.
TEST(GlooMeeting, ConnectionsAreMadeUntilTheSameDeadline) {
  const TempDir folder;
  const auto statuses = run_processes(2, [&](int rank) -> Status {
    if (rank == 0) {
      const auto start = Clock::now();
      const auto group = make_gloo_group(folder.path(), 0, 2, hasty(seconds(2)));
      SHARDKIT_TRY(expect(Clock::now() - start < seconds(3), "an answer at the deadline"));
      return group.ok() ? Status() : group.error();
    }
    // As rank 1's, but of a port where nobody is. gloo lets the higher address of two connect.
    std::vector<Door> doors(2);
    auto* address = reinterpret_cast<sockaddr_in*>(&doors[0].address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address->sin_port = 0xffff;
    std::this_thread::sleep_for(milliseconds(1500));
    std::ofstream(folder / "unfinished") << make_card(doors, kUnknownHost);
    std::filesystem::rename(folder / "unfinished", folder / "rank_1.card");
    return {};
  });
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kPeer, "rank 0 had no connection with rank 1 in time"));
  EXPECT_THAT(statuses[1], IsOk());
}

TEST(GlooMeeting, RanksThatContradictEachOther) {
  const int port = free_port();
  const auto twice = run_processes(3, [&](int rank) -> Status {
    SHARDKIT_TRY(make_gloo_group(launched(rank == 2 ? 1 : rank, 3, port), hasty(seconds(20))));
    return {};
  });
  for (const Status& status : twice)
    EXPECT_THAT(status, Fails(ErrorCode::kPeer, "two came as rank 1"));
  const auto sizes = run_processes(2, [&](int rank) -> Status {
    SHARDKIT_TRY(make_gloo_group(launched(rank, 2 + rank, port), hasty(seconds(20))));
    return {};
  });
  EXPECT_THAT(sizes[0], Fails(ErrorCode::kPeer, "one came as rank 1 of 3"));
  EXPECT_THAT(sizes[1], Fails(ErrorCode::kPeer, "one came as rank 1 of 3"));
}

TEST(GlooMeeting, WhatIsWrongOnThisHost) {
  const auto makes = [](const GlooOptions& options, int rank = 0, int size = 2) {
    const TempDir folder;
    return make_gloo_group(folder.path(), rank, size, options);
  };
  GlooOptions options;
  options.interface = "no_such0";
  EXPECT_THAT(makes(options),
              Fails(ErrorCode::kInvalidArgument, "no network interface 'no_such0'"));
  options.host = "127.0.0.1";
  EXPECT_THAT(makes(options),
              Fails(ErrorCode::kInvalidArgument, "both a network interface and a host are named"));
  options.interface.clear();
  options.host = "192.0.2.1";  // of nobody (RFC 5737)
  EXPECT_THAT(makes(options),
              Fails(ErrorCode::kInvalidArgument, "'192.0.2.1' is no address of this"));
  EXPECT_THAT(makes({}, 2, 2),
              Fails(ErrorCode::kInvalidArgument, "a group of 2 ranks has no rank 2"));
  EXPECT_THAT(makes({}, 0, 0),
              Fails(ErrorCode::kInvalidArgument, "a group of 0 ranks has no rank 0"));

  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  EXPECT_THAT(make_gloo_group(launched(0, 2, ntohs(address.sin_port)), gloo_test_options()),
              Fails(ErrorCode::kIo, "rank 0 cannot listen at port"));
  ::close(fd);
}

TEST(GlooMeeting, AFolderIsForOneGroup) {
  const TempDir folder;
  for (const bool first : {true, false}) {
    const auto statuses = run_processes(2, [&](int rank) -> Status {
      SHARDKIT_TRY(make_gloo_group(folder.path(), rank, 2, gloo_test_options()));
      return {};
    });
    for (const Status& status : statuses)
      if (first)
        EXPECT_THAT(status, IsOk());
      else
        EXPECT_THAT(status, Fails(ErrorCode::kInvalidArgument, "an earlier group"));
  }
  EXPECT_THAT(make_gloo_group(folder / "no_such", 0, 2, gloo_test_options()),
              Fails(ErrorCode::kNotFound, "no_such"));
}

TEST(GlooMeeting, ByTheLoopbacksName) {
  const TempDir folder;
  const auto statuses = run_processes(2, [&](int rank) -> Status {
    GlooOptions options;
    options.interface = "lo";
    SHARDKIT_ASSIGN(auto group, make_gloo_group(folder.path(), rank, 2, options));
    return all_ranks_are_there(*group);
  });
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

TEST(GlooGroup, AGroupOfOneNeedsNobody) {
  auto group = make_gloo_group("/no/such/folder", 0, 1);
  ASSERT_THAT(group, IsOk());
  std::vector<std::byte> buffer = message(0, 0, 3);
  EXPECT_THAT((*group)->broadcast(buffer, 0, milliseconds(0)), IsOk());
  EXPECT_EQ(buffer, message(0, 0, 3));
}

using BufferedCall = std::function<Status(ProcessGroup& group, std::span<std::byte> buffer)>;

Status broadcast_all(ProcessGroup& group, std::span<std::byte> buffer) {
  return group.broadcast(buffer, 0, seconds(5));
}

/// What the others see when rank 1 ends as `end` says, in the middle of a call with a deadline of
/// five seconds and perhaps `kLarge` bytes, and whether they can go on with a group of their own.
void expect_survivors(const std::function<void()>& end, const std::string& text,
                      const BufferedCall& call = broadcast_all) {
  const TempDir first;
  const TempDir second;
  const auto statuses = run_processes(4, [&](int rank) -> Status {
    SHARDKIT_ASSIGN(auto group, make_gloo_group(first.path(), rank, 4, gloo_test_options()));
    std::vector<std::byte> buffer(kLarge);
    SHARDKIT_TRY(group->barrier());
    std::jthread ending;
    if (rank == 1) ending = std::jthread(end);
    const auto start = Clock::now();
    Status status;
    // On a fast machine one is over before the end.
    while (status.ok() && Clock::now() - start < seconds(5)) status = call(*group, buffer);
    const auto waited = Clock::now() - start;
    SHARDKIT_TRY(expect(!status.ok() && status.error().code() == ErrorCode::kPeer, "kPeer"));
    SHARDKIT_TRY(expect(status.error().what().find(text) != std::string::npos,
                        text + ", not " + status.error().what()));
    SHARDKIT_TRY(expect(waited < seconds(10), "an answer within twice the deadline"));
    const int rank_now = rank == 0 ? 0 : rank - 1;
    SHARDKIT_ASSIGN(auto survivors,
                    make_gloo_group(second.path(), rank_now, 3, gloo_test_options()));
    SHARDKIT_TRY(all_ranks_are_there(*survivors));
    return call(*survivors, buffer);
  });
  for (const int rank : {0, 2, 3}) EXPECT_THAT(statuses[static_cast<std::size_t>(rank)], IsOk());
  EXPECT_THAT(statuses[1], Fails(ErrorCode::kInternal, "killed by signal 9"));
}

TEST(GlooGroup, ARankIsKilledInTheMiddleOfACall) {
  for (const int delay : {0, 10, 40})
    expect_survivors(
        [delay] {
          std::this_thread::sleep_for(milliseconds(delay));
          ::kill(::getpid(), SIGKILL);
        },
        // Perhaps "ranks 0, 1": who is in the middle of a message from 0 is not told by it.
        "1 left the group");
}

TEST(GlooGroup, ARankIsKilledInTheMiddleOfASplit) {
  for (const int delay : {0, 2, 8})
    expect_survivors(
        [delay] {
          std::this_thread::sleep_for(milliseconds(delay));
          ::kill(::getpid(), SIGKILL);
        },
        "rank",  // which one, gloo does not always tell while it connects
        [](ProcessGroup& group, std::span<std::byte>) -> Status {
          SHARDKIT_TRY(group.split(0, 0, seconds(5)));
          return {};
        });
}

TEST(GlooGroup, ARankHangsInTheMiddleOfACall) {
  expect_survivors(
      [] {
        const pid_t rank = ::getpid();
        // A stopped process cannot end itself.
        if (::fork() == 0) {
          std::this_thread::sleep_for(milliseconds(20));
          ::kill(rank, SIGSTOP);
          std::this_thread::sleep_for(seconds(8));
          ::kill(rank, SIGKILL);
          ::_exit(0);
        }
      },
      "1 had not finished");
}

// A wait is not bound to the order of ranks: rank 1 is awaited first, rank 2 is killed.
TEST(GlooGroup, ADeathEndsTheWaitForSomebodyElse) {
  const auto statuses = run_gloo_ranks(
      3,
      [](ProcessGroup& group) -> Status {
        SHARDKIT_TRY(group.barrier());
        if (group.rank() == 2) ::kill(::getpid(), SIGKILL);
        if (group.rank() == 1) std::this_thread::sleep_for(seconds(3));
        const auto start = Clock::now();
        const Status status = group.barrier();
        SHARDKIT_TRY(expect(Clock::now() - start < seconds(2), "an answer before rank 1 comes"));
        return status;
      },
      {seconds(60)});
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kPeer, "rank 2 left the group"));
  EXPECT_THAT(statuses[1], Fails(ErrorCode::kPeer, "rank 2 left the group"));
}

TEST(GlooGroup, ASubgroupNamesTheRanksOfTheOutermostGroup) {
  const auto statuses =
      run_gloo_ranks(4,
                     [](ProcessGroup& group) -> Status {
                       SHARDKIT_ASSIGN(auto upper, group.split(group.rank() / 2, 0));
                       SHARDKIT_ASSIGN(auto backwards, upper->split(0, -upper->rank()));
                       if (group.rank() == 2) return backwards->barrier();
                       return {};
                     },
                     {seconds(60)});
  EXPECT_THAT(statuses[2], Fails(ErrorCode::kPeer, "rank 0 left the group"));
  EXPECT_THAT(statuses[2], Fails(ErrorCode::kPeer, "[3, 2]"));
}

// Sizes around what goes along with the message that agrees on a call, and around the pieces of an
// all_reduce: the same bytes as with threads, which the suite compares with numbers of its own.
TEST(GlooGroup, PartsOfAllSizesTogether) {
  const auto statuses = run_gloo_ranks(
      3,
      [](ProcessGroup& group) -> Status {
        const std::size_t sizes[] = {0, 4096, 4097, 5000000};
        for (int shift = 0; shift < 4; ++shift) {
          Buffers send;
          Buffers receive;
          const auto size_of = [&](int from, int to) {
            return sizes[static_cast<std::size_t>(from + to + shift) % 4];
          };
          for (int i = 0; i < 3; ++i) {
            send.add(message(group.rank(), i, size_of(group.rank(), i)));
            receive.add_room(size_of(i, group.rank()));
          }
          SHARDKIT_TRY(group.all_to_all(send.readable(), receive.writable()));
          for (int i = 0; i < 3; ++i)
            SHARDKIT_TRY(expect(receive.data[static_cast<std::size_t>(i)] ==
                                    message(i, group.rank(), size_of(i, group.rank())),
                                "each rank's part"));
        }
        for (const std::size_t count : {1024u, 1025u, 3u << 18, (3u << 18) + 1, 2000001u}) {
          std::vector<std::int32_t> numbers(count, 1 << group.rank());
          SHARDKIT_TRY(group.all_reduce(Accumulation::kSum, DType::kInt32,
                                        std::as_writable_bytes(std::span(numbers))));
          SHARDKIT_TRY(expect(numbers == std::vector<std::int32_t>(count, 7), "the sums"));
        }
        return {};
      },
      {seconds(60)});
  for (const Status& status : statuses) EXPECT_THAT(status, IsOk());
}

}  // namespace
}  // namespace shardkit::testing
