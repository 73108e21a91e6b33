// Gloo groups: each call is agreed on in one exchange of messages, then its bytes move.
#include "shardkit/collective/gloo/gloo_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "shardkit/collective/call_message_internal.h"
#include "shardkit/collective/gloo/card_internal.h"
#include "shardkit/collective/gloo/meeting_internal.h"
#include "shardkit/collective/gloo/mesh_internal.h"
#include "shardkit/collective/gloo/network_internal.h"
#include "shardkit/collective/message.h"
#include "shardkit/collective/rank_order_reduction_internal.h"
#include "shardkit/collective/subgroup_ranks_internal.h"

namespace shardkit {
namespace {

using Clock = std::chrono::steady_clock;

// A part of at most as many bytes goes along with the message that agrees on the call: a call that
// has no larger ones is one message from each rank to each other.
constexpr std::size_t kInlineBytes = 4096;
// What an all_reduce holds of each rank at a time. A multiple of every element's size.
constexpr std::size_t kReduceBytes = 1 << 20;

std::size_t message_bytes(int size) { return longest_shape_bytes(size) + kInlineBytes; }

bool goes_along(std::uint64_t bytes) { return bytes <= kInlineBytes; }

bool all_goes_along(std::span<const CallShape> shapes) {
  for (std::size_t from = 0; from < shapes.size(); ++from) {
    if (!goes_along(shapes[from].buffer_bytes)) return false;
    for (std::size_t to = 0; to < shapes[from].sent_bytes.size(); ++to)
      if (to != from && !goes_along(shapes[from].sent_bytes[to])) return false;
  }
  return true;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!to.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), to.size());
}

class GlooGroup final : public ProcessGroup {
 public:
  /// @param mesh  null in a group of one
  GlooGroup(int rank, std::vector<int> outermost, std::unique_ptr<GlooMesh> mesh,
            const GroupOptions& options)
      : ProcessGroup(rank, static_cast<int>(outermost.size()), options),
        outermost_(std::move(outermost)),
        mesh_(std::move(mesh)) {}

  /// All have connected, or none.
  Status begin(const MeshCall& call) {
    if (!mesh_) return {};
    auto all = mesh_->exchange(std::vector<std::string>(outermost_.size()), call);
    if (!all.ok()) return fail(std::move(all).error());
    return {};
  }

 private:
  Status run(const CollectiveCall& call, TimePoint deadline) override {
    SHARDKIT_TRY(usable());
    const MeshCall now{to_string(call.op), ++calls_, Clock::now(), deadline};
    Status done = carry_out(call, now);
    if (!done.ok()) return fail(std::move(done).error());
    return {};
  }

  Result<std::unique_ptr<ProcessGroup>> run_split(const CollectiveCall& call,
                                                  TimePoint deadline) override {
    SHARDKIT_TRY(usable());
    const MeshCall now{to_string(call.op), ++calls_, Clock::now(), deadline};
    auto group = divide(call, now);
    if (!group.ok()) return fail(std::move(group).error());
    return group;
  }

  Error refuse(Error error) override {
    if (const Status status = usable(); !status.ok()) return status.error();
    ++calls_;
    return fail(std::move(error));
  }

  Status usable() {
    if (!failure_ && mesh_)
      if (auto told = mesh_->told()) become_unusable(*std::move(told));
    if (!failure_) return {};
    return unusable();
  }

  Error unusable() const {
    return Error(
        failure_->code(),
        fmt::format("the process group is unusable since an earlier error: {}", failure_->what()));
  }

  void become_unusable(MeshFailure failure) {
    if (mesh_) mesh_->tell_and_close(failure);
    failure_ = with_outermost_ranks(std::move(failure.error), outermost_);
  }

  /// This rank's present call fails: because of `error`, or because of what it has been told.
  Error fail(Error error) {
    if (mesh_)
      if (auto told = mesh_->told(); told && told->call <= calls_) {
        become_unusable(*std::move(told));
        return unusable();
      }
    become_unusable({std::move(error), calls_});
    return *failure_;
  }

  std::size_t ranks() const { return outermost_.size(); }
  std::size_t self() const { return static_cast<std::size_t>(rank()); }

  Status carry_out(const CollectiveCall& call, MeshCall now) {
    std::vector<std::string_view> along;
    SHARDKIT_ASSIGN(const auto shapes, agree(call, now, along));
    if (call.op == CollectiveOp::kAllReduce && all_goes_along(shapes)) {
      std::vector<ProcessGroup::Readable> addends;
      for (std::size_t rank = 0; rank < ranks(); ++rank)
        addends.push_back(rank == self() ? ProcessGroup::Readable(call.buffer)
                                         : bytes_of(along[rank].substr(0, call.buffer.size())));
      reduce_in_rank_order(call.accumulation, call.dtype, addends, call.buffer);
      return {};
    }
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const auto to = call.received_from(rank);
      if (rank == self())
        copy(call.sent_to(rank), to);
      else if (goes_along(to.size()))
        copy(bytes_of(along[rank].substr(0, to.size())), to);
    }
    if (all_goes_along(shapes)) return {};

    now.awaited = "finished";
    SHARDKIT_TRY(call.op == CollectiveOp::kAllReduce ? reduce(call, now) : move_large(call, now));
    // Nobody has succeeded before all have.
    SHARDKIT_TRY(tell_all("", now));
    return {};
  }

  /// Exchanges what all ranks call, and the small parts; whether it fits.
  /// @param along  by sender, what begins with its small part for this rank
  Result<std::vector<CallShape>> agree(const CollectiveCall& call, const MeshCall& now,
                                       std::vector<std::string_view>& along) {
    std::vector<CallShape> shapes(ranks());
    shapes[self()] = shape_of(call);
    along.assign(ranks(), {});
    if (mesh_) {
      const std::string shape = encode_shape(shapes[self()]);
      std::vector<std::string> messages(ranks());
      for (std::size_t to = 0; to < ranks(); ++to) {
        const auto part = call.op == CollectiveOp::kAllReduce ? call.buffer : call.sent_to(to);
        messages[to] = shape;
        if (to != self() && goes_along(part.size())) messages[to] += text_of(part);
      }
      SHARDKIT_ASSIGN(const auto received, mesh_->exchange(messages, now));
      for (std::size_t from = 0; from < ranks(); ++from) {
        if (from == self()) continue;
        SHARDKIT_ASSIGN(auto decoded, decode_shape(received[from], size()));
        shapes[from] = std::move(decoded.shape);
        along[from] = received[from].substr(decoded.bytes);
      }
    }
    SHARDKIT_TRY(check_calls_fit(shapes));
    return shapes;
  }

  /// The same text from each rank to each other.
  Result<std::vector<std::string_view>> tell_all(const std::string& text, const MeshCall& now) {
    if (!mesh_) return std::vector<std::string_view>(1);
    return mesh_->exchange(std::vector<std::string>(ranks(), text), now);
  }

  Status move_large(const CollectiveCall& call, const MeshCall& now) {
    std::vector<GlooMesh::Sent> send;
    std::vector<GlooMesh::Received> receive;
    // From the next rank on, so that not all send to the same one first.
    for (std::size_t i = 1; i < ranks(); ++i) {
      const std::size_t peer = (self() + i) % ranks();
      const auto from = call.sent_to(peer);
      const auto to = call.received_from(peer);
      if (!goes_along(from.size())) send.push_back({static_cast<int>(peer), from});
      if (!goes_along(to.size())) receive.push_back({static_cast<int>(peer), to});
    }
    return mesh_->move(send, receive, now);
  }

  /// Each rank reduces a part for all, of one piece of the buffer after another.
  Status reduce(const CollectiveCall& call, const MeshCall& now) {
    if (!mesh_) {
      reduce_in_rank_order(call.accumulation, call.dtype,
                           std::vector<ProcessGroup::Readable>{call.buffer}, call.buffer);
      return {};
    }
    std::vector<std::vector<std::byte>> memory(ranks());
    for (std::size_t begin = 0; begin < call.buffer.size(); begin += ranks() * kReduceBytes) {
      const auto part = [&](std::size_t rank) {
        const std::size_t at = std::min(begin + rank * kReduceBytes, call.buffer.size());
        return call.buffer.subspan(at, std::min(kReduceBytes, call.buffer.size() - at));
      };
      const auto mine = part(self());
      std::vector<GlooMesh::Sent> addends_out;
      std::vector<GlooMesh::Received> addends_in;
      std::vector<GlooMesh::Sent> result_out;
      std::vector<GlooMesh::Received> results_in;
      std::vector<ProcessGroup::Readable> addends(ranks(), mine);
      for (std::size_t i = 1; i < ranks(); ++i) {
        const std::size_t rank = (self() + i) % ranks();
        const int peer = static_cast<int>(rank);
        if (!part(rank).empty()) {
          addends_out.push_back({peer, part(rank)});
          results_in.push_back({peer, part(rank)});
        }
        if (mine.empty()) continue;
        memory[rank].resize(mine.size());
        addends[rank] = memory[rank];
        addends_in.push_back({peer, memory[rank]});
        result_out.push_back({peer, mine});
      }
      SHARDKIT_TRY(mesh_->move(addends_out, addends_in, now));
      reduce_in_rank_order(call.accumulation, call.dtype, addends, mine);
      SHARDKIT_TRY(mesh_->move(result_out, results_in, now));
    }
    return {};
  }

  /// A split: agreed on as any call, then the subgroups' ranks exchange their cards through this
  /// group, and connect.
  Result<std::unique_ptr<ProcessGroup>> divide(const CollectiveCall& call, MeshCall now) {
    std::vector<std::string_view> along;
    SHARDKIT_TRY(agree(call, now, along));
    now.awaited = "finished";
    const auto place = std::find(call.ranks.begin(), call.ranks.end(), rank());
    const int subrank = static_cast<int>(place - call.ranks.begin());
    const int subsize = static_cast<int>(call.ranks.size());
    Result<std::unique_ptr<GlooMesh>> mesh = std::unique_ptr<GlooMesh>();
    if (subsize > 1)
      mesh = GlooMesh::open(mesh_->device(), subrank, subsize, message_bytes(subsize));
    SHARDKIT_ASSIGN(const auto cards, agree_on(mesh.ok() ? Status() : mesh.error(),
                                               mesh.ok() && *mesh ? (*mesh)->card() : "", now));
    Status connected;
    if (subsize > 1) {
      std::vector<std::string> theirs;
      for (const int each : call.ranks) theirs.push_back(cards[static_cast<std::size_t>(each)]);
      connected = (*mesh)->connect(theirs, now);
    }
    SHARDKIT_TRY(agree_on(connected, "", now));
    if (call.ranks.empty()) return std::unique_ptr<ProcessGroup>();
    std::vector<int> outermost;
    for (const int each : call.ranks)
      outermost.push_back(outermost_[static_cast<std::size_t>(each)]);
    return std::make_unique<GlooGroup>(subrank, std::move(outermost), *std::move(mesh), options());
  }

  /// The texts of all ranks, or the error of the lowest rank that has one.
  Result<std::vector<std::string>> agree_on(const Status& mine, const std::string& text,
                                            const MeshCall& now) {
    constexpr std::int64_t kOk = -1;
    MessageWriter out;
    out.put(mine.ok() ? kOk : static_cast<std::int64_t>(mine.error().code()));
    out.put(mine.ok() ? text : mine.error().what().substr(0, kInlineBytes / 2));
    SHARDKIT_ASSIGN(const auto received, tell_all(std::move(out).take(), now));
    std::vector<std::string> texts(ranks());
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (rank == self()) {
        SHARDKIT_TRY(mine);
        texts[rank] = text;
        continue;
      }
      MessageReader in(received[rank]);
      SHARDKIT_ASSIGN(const auto code, in.number());
      SHARDKIT_ASSIGN(texts[rank], in.text());
      if (code < kOk || code > static_cast<std::int64_t>(ErrorCode::kInternal))
        return Error(ErrorCode::kPeer,
                     fmt::format("{}: rank {} sent an unknown error code", now.op, rank))
            .found(std::to_string(code));
      if (code != kOk) return Error(static_cast<ErrorCode>(code), texts[rank]);
    }
    return texts;
  }

  std::vector<int> outermost_;
  std::unique_ptr<GlooMesh> mesh_;
  std::optional<Error> failure_;
  std::int64_t calls_ = 0;
};

Status check_options(int rank, int size, const GlooOptions& options) {
  if (size < 1 || rank < 0 || rank >= size)
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("a group of {} ranks has no rank {}", size, rank));
  if (!options.interface.empty() && !options.host.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "both a network interface and a host are named: name one");
  return {};
}

// Where the options leave it open, `otherwise` tells.
template <typename Fn>
Result<std::string> choose_address(const GlooOptions& options, const Fn& otherwise) {
  if (!options.interface.empty()) return address_of_interface(options.interface);
  if (!options.host.empty()) return own_address_of(options.host);
  if (const char* name = std::getenv("GLOO_SOCKET_IFNAME"); name && *name)
    return address_of_interface(name);
  return otherwise();
}

/// @param own_address  where the options leave it open
/// @param meet         exchanges cards with the other ranks
template <typename AddressFn, typename MeetFn>
Result<std::unique_ptr<ProcessGroup>> make_group(const Meeting& meeting, const MeshCall& now,
                                                 const GlooOptions& options,
                                                 const AddressFn& own_address, const MeetFn& meet) {
  std::vector<int> outermost(static_cast<std::size_t>(meeting.size));
  std::iota(outermost.begin(), outermost.end(), 0);
  std::unique_ptr<GlooMesh> mesh;
  if (meeting.size > 1) {
    SHARDKIT_ASSIGN(const std::string address, choose_address(options, own_address));
    SHARDKIT_ASSIGN(auto device, open_gloo_device(address));
    SHARDKIT_ASSIGN(mesh, GlooMesh::open(std::move(device), meeting.rank, meeting.size,
                                         message_bytes(meeting.size)));
    SHARDKIT_ASSIGN(const std::vector<std::string> cards, meet(mesh->card()));
    if (Status fit = check_addresses(cards); !fit.ok())
      return Error(fit.error().code(), fmt::format("{}: {}", now.op, fit.error().what()));
    SHARDKIT_TRY(mesh->connect(cards, now));
  }
  auto group = std::make_unique<GlooGroup>(meeting.rank, std::move(outermost), std::move(mesh),
                                           options.group);
  SHARDKIT_TRY(group->begin(now));
  return group;
}

MeshCall making_a_group(const GlooOptions& options) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  const auto now = Clock::now();
  return {"making a group", 0, now,
          now + std::clamp(options.start_timeout, std::chrono::milliseconds(0), kLongest)};
}

}  // namespace

bool gloo_is_available() { return true; }

Result<std::unique_ptr<ProcessGroup>> make_gloo_group(const LaunchEnvironment& environment,
                                                      const GlooOptions& options) {
  SHARDKIT_TRY(check_options(environment.rank, environment.size, options));
  const MeshCall now = making_a_group(options);
  const Meeting meeting{environment.rank, environment.size, now.deadline};
  const auto own_address = [&]() -> Result<std::string> {
    SHARDKIT_ASSIGN(const auto master, resolve_until(environment.master_address,
                                                     environment.master_port, now.deadline));
    return own_address_towards(master);
  };
  return make_group(meeting, now, options, own_address, [&](const std::string& card) {
    return meet_at_master(environment, meeting, card);
  });
}

Result<std::unique_ptr<ProcessGroup>> make_gloo_group(const std::string& folder, int rank, int size,
                                                      const GlooOptions& options) {
  SHARDKIT_TRY(check_options(rank, size, options));
  const MeshCall now = making_a_group(options);
  const Meeting meeting{rank, size, now.deadline};
  const auto own_address = [] { return Result<std::string>(default_own_address()); };
  return make_group(meeting, now, options, own_address,
                    [&](const std::string& card) { return meet_in_folder(folder, meeting, card); });
}

}  // namespace shardkit
