// Meshes that cannot be made, and a rank of one that says what no rank says.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "shardkit/collective/call_message_internal.h"
#include "shardkit/collective/gloo/card_internal.h"
#include "shardkit/collective/gloo/meeting_internal.h"
#include "shardkit/collective/gloo/mesh_internal.h"
#include "shardkit/collective/gloo/network_test_util.h"
#include "shardkit/collective/gloo/processes_test_util.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::testing {
namespace {

constexpr const char* kHere = "127.0.0.1";

TEST(GlooMesh, AnAddressThatIsNotOfThisHost) {
  // Of nobody (RFC 5737).
  EXPECT_THAT(open_gloo_device("192.0.2.1"),
              Fails(ErrorCode::kIo, "gloo cannot use the address 192.0.2.1: "));
}

TEST(GlooMesh, AProcessThatMayOpenNothingMore) {
  const auto statuses = run_processes(1, [](int) -> Status {
    SHARDKIT_ASSIGN(auto device, open_gloo_device(kHere));
    const rlimit none{0, 0};
    SHARDKIT_TRY(expect(::setrlimit(RLIMIT_NOFILE, &none) == 0, "a limit"));
    SHARDKIT_TRY(GlooMesh::open(std::move(device), 0, 2, 64));
    return {};
  });
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kIo, "rank 0: gloo opens no port: "));
}

// gloo lets the higher address of two connect: that is this rank's.
TEST(GlooMesh, ARankAtWhosePortNobodyListens) {
  const TempDir folder;
  std::vector<Door> doors(2);
  doors[0].address = loopback(1).storage;
  write_file(folder / "rank_1.card", make_card(doors, kUnknownHost));
  const auto statuses = run_processes(1, [&](int) -> Status {
    SHARDKIT_TRY(make_gloo_group(folder.path(), 0, 2, gloo_test_options()));
    return {};
  });
  EXPECT_THAT(statuses[0],
              Fails(ErrorCode::kPeer, "making a group: rank 0 has no connection with rank 1: "));
}

/// Is rank 1 of 2 and sends messages, one after the other; the first as it is made.
Status send_as_rank_1(const std::string& folder, const std::vector<std::string>& messages) {
  constexpr std::size_t kMessageBytes = 64 << 10;  // no call's is longer
  const MeshCall call{"test", 0, std::chrono::steady_clock::now(), soon()};
  SHARDKIT_ASSIGN(auto device, open_gloo_device(kHere));
  SHARDKIT_ASSIGN(const auto mesh, GlooMesh::open(std::move(device), 1, 2, kMessageBytes));
  SHARDKIT_ASSIGN(const auto cards, meet_in_folder(folder, {1, 2, call.deadline}, mesh->card()));
  SHARDKIT_TRY(mesh->connect(cards, call));
  for (const std::string& message : messages)
    SHARDKIT_TRY(mesh->exchange(std::vector<std::string>{message, ""}, call));
  return {};
}

TEST(GlooMesh, AStatusOfNoCode) {
  const TempDir folder;
  CallShape split;
  split.op = CollectiveOp::kSplit;
  split.ranks = {1};
  MessageWriter status;
  status.put(std::int64_t{99});
  status.put("");
  const std::vector<std::string> messages{"", encode_shape(split), std::move(status).take()};
  const auto statuses = run_processes(2, [&](int rank) -> Status {
    if (rank == 1) return send_as_rank_1(folder.path(), messages);
    SHARDKIT_ASSIGN(auto group, make_gloo_group(folder.path(), 0, 2, gloo_test_options()));
    SHARDKIT_TRY(group->split(std::vector<int>{0}));
    return {};
  });
  EXPECT_THAT(statuses[0], Fails(ErrorCode::kPeer, "split: rank 1 sent an unknown error code"));
}

}  // namespace
}  // namespace shardkit::testing
