// GlooMesh: pairs, posted receives, and who wakes whom when a rank fails.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "shardkit/base/sigpipe_blocked_internal.h"
#include "shardkit/collective/gloo/alarm_internal.h"
#include "shardkit/collective/gloo/card_internal.h"
#include "shardkit/collective/gloo/mesh_internal.h"
#include "shardkit/collective/gloo/network_internal.h"
#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

using Clock = std::chrono::steady_clock;
using gloo::transport::UnboundBuffer;

// gloo tells the messages between two ranks apart by these.
constexpr std::uint64_t kMessageSlot = 1;
constexpr std::uint64_t kPayloadSlot = 2;
constexpr std::uint64_t kNoticeSlot = 3;
constexpr std::uint64_t kBellSlot = 4;
constexpr std::uint64_t kProbeSlot = 5;

constexpr std::size_t kNoticeBytes = 2048;
constexpr std::size_t kNoticeText = 1500;
constexpr auto kForever = std::chrono::hours(24 * 365);
// What has arrived is there at once; the time is for this thread to be run.
constexpr auto kMoment = std::chrono::milliseconds(100);

Result<MeshFailure> decode_notice(std::string_view bytes) {
  MessageReader in(bytes);
  SHARDKIT_ASSIGN(const std::int64_t call, in.number());
  SHARDKIT_ASSIGN(const std::int64_t code,
                  in.number_up_to(static_cast<std::int64_t>(ErrorCode::kInternal)));
  SHARDKIT_ASSIGN(std::string text, in.text());
  return MeshFailure{Error(static_cast<ErrorCode>(code), std::move(text)), call};
}

std::string encode_notice(const MeshFailure& failure) {
  MessageWriter out;
  out.put(failure.call);
  out.put(static_cast<std::int64_t>(failure.error.code()));
  out.put(std::string_view(failure.error.what()).substr(0, kNoticeText));
  return std::move(out).take();
}

/// A transfer that has been posted and is to be waited for.
struct Posted {
  UnboundBuffer* buffer;
  bool receiving;
  int peer;
  bool done = false;
};

enum class Waited { kDone, kLate, kDisturbed, kBroken };

void abort_wait(UnboundBuffer& buffer, bool receiving) {
  if (receiving)
    buffer.abortWaitRecv();
  else
    buffer.abortWaitSend();
}

}  // namespace

class GlooDevice {
 public:
  explicit GlooDevice(std::shared_ptr<gloo::transport::Device> device) : gloo_(std::move(device)) {}
  gloo::transport::Device& gloo() { return *gloo_; }
  Alarm& alarm() { return alarm_; }

 private:
  std::shared_ptr<gloo::transport::Device> gloo_;
  Alarm alarm_;
};

Result<std::shared_ptr<GlooDevice>> open_gloo_device(const std::string& address) {
  const SigpipeBlocked blocked;
  try {
    return std::make_shared<GlooDevice>(
        gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str())));
  } catch (const std::exception& e) {
    return Error(ErrorCode::kIo,
                 fmt::format("gloo cannot use the address {}: {}", address, e.what()));
  }
}

struct GlooMesh::State {
  struct Inbox {
    std::vector<char> memory;
    std::unique_ptr<UnboundBuffer> buffer;
  };
  struct Peer {
    std::array<Inbox, 2> in;  // one is read while the other is filled
    Inbox notice;
    std::vector<char> out_memory;
    std::unique_ptr<UnboundBuffer> out;
  };

  std::shared_ptr<GlooDevice> device;
  int rank;
  int size;
  std::size_t message_bytes;
  std::string card;
  std::shared_ptr<gloo::transport::Context> context;
  std::vector<Peer> peers;
  std::size_t exchanges = 0;
  std::unique_ptr<UnboundBuffer> bell;  // nobody ever sends to it: it ends with a connection
  std::unique_ptr<UnboundBuffer> probe;
  std::optional<MeshFailure> told;

  std::mutex mutex;
  bool rung = false;    // a connection has ended
  bool heeded = false;  // and the waiting thread has seen to it
  const Posted* waiting = nullptr;
  std::thread watcher;

  template <typename Fn>
  void for_each_peer(const Fn& fn) {
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) fn(peer, peers[static_cast<std::size_t>(peer)]);
  }

  std::string open();
  Inbox make_inbox(std::size_t bytes) const {
    Inbox inbox{std::vector<char>(bytes), nullptr};
    inbox.buffer = context->createUnboundBuffer(inbox.memory.data(), bytes);
    return inbox;
  }
  bool connect(int peer, const Door& door, TimePoint deadline);
  void start();
  void watch();
  Waited wait(const Posted& posted, TimePoint deadline);
  Status wait_all(std::span<Posted> posted, const MeshCall& call, bool all_needed);
  Status settle(std::span<Posted> posted, const MeshCall& call, bool all_needed);
  bool broken(int peer);
  void read_notices();
  Error gone(const MeshCall& call);
  Error late(std::span<const Posted> posted, const MeshCall& call);
  void close();
};

std::string GlooMesh::State::open() {
  peers.resize(static_cast<std::size_t>(size));
  context = device->gloo().createContext(rank, size);
  // gloo counts anew for each connection: the alarm ends them all at one time.
  context->setTimeout(kForever);
  std::vector<Door> doors(static_cast<std::size_t>(size));
  for_each_peer([&](int peer, Peer&) {
    const gloo::transport::tcp::Address own(context->createPair(peer)->address().bytes());
    doors[static_cast<std::size_t>(peer)] = {own.getSockaddr(), own.getSeq()};
  });
  return make_card(doors, number_of_this_host());
}

// False: the deadline has passed.
bool GlooMesh::State::connect(int peer, const Door& door, TimePoint deadline) {
  const auto& pair = context->getPair(peer);
  const auto key = device->alarm().arm(deadline, [&pair] {
    try {
      pair->close();
    } catch (const std::exception&) {  // gloo itself has seen it fail
    }
  });
  {
    const auto disarm = [&](void*) { device->alarm().disarm(key); };
    const std::unique_ptr<void, decltype(disarm)> armed(this, disarm);
    pair->connect(gloo::transport::tcp::Address(door.address, door.sequence).bytes());
  }
  // One that was closed in the meantime looks as if it were made.
  return Clock::now() < deadline;
}

void GlooMesh::State::start() {
  bell = context->createUnboundBuffer(nullptr, 0);
  probe = context->createUnboundBuffer(nullptr, 0);
  for_each_peer([&](int peer, Peer& state) {
    for (Inbox& inbox : state.in) {
      inbox = make_inbox(message_bytes);
      inbox.buffer->recv(peer, kMessageSlot, 0, message_bytes);
    }
    state.notice = make_inbox(kNoticeBytes);
    state.notice.buffer->recv(peer, kNoticeSlot, 0, kNoticeBytes);
    state.out_memory.resize(message_bytes);
    state.out = context->createUnboundBuffer(state.out_memory.data(), message_bytes);
    bell->recv(peer, kBellSlot, 0, 0);
  });
  watcher = std::thread([this] { watch(); });
}

// Runs until the first connection ends: then the group has no future, and at most the present call
// can still succeed.
void GlooMesh::State::watch() {
  try {
    bell->waitRecv(nullptr, kForever);
  } catch (const std::exception&) {
    // Whose it is, is for the waiting thread to see.
  }
  const std::lock_guard lock(mutex);
  rung = true;
  if (waiting) abort_wait(*waiting->buffer, waiting->receiving);
}

Waited GlooMesh::State::wait(const Posted& posted, TimePoint deadline) {
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      if (rung && !heeded) {
        heeded = true;
        return Waited::kDisturbed;
      }
      waiting = &posted;
    }
    const auto key =
        device->alarm().arm(deadline, [&posted] { abort_wait(*posted.buffer, posted.receiving); });
    Waited result = Waited::kLate;
    try {
      const bool done = posted.receiving ? posted.buffer->waitRecv(nullptr, kForever)
                                         : posted.buffer->waitSend(nullptr, kForever);
      if (done) result = Waited::kDone;
    } catch (const std::exception&) {
      result = Waited::kBroken;
    }
    device->alarm().disarm(key);
    {
      const std::lock_guard lock(mutex);
      waiting = nullptr;
    }
    // An aborted wait is repeated: it may have been meant for an earlier one.
    if (result != Waited::kLate || Clock::now() >= deadline) return result;
  }
}

// @param all_needed  no rank may leave before this has ended
Status GlooMesh::State::wait_all(std::span<Posted> posted, const MeshCall& call, bool all_needed) {
  for (Posted& each : posted)
    while (!each.done) {
      switch (wait(each, call.deadline)) {
        case Waited::kDone: each.done = true; break;
        case Waited::kDisturbed: SHARDKIT_TRY(settle(posted, call, all_needed)); break;
        case Waited::kBroken: return gone(call);
        case Waited::kLate: return late(posted, call);
      }
    }
  return {};
}

// Why the call fails at its deadline: some of those whose transfers are not done.
Error GlooMesh::State::late(std::span<const Posted> posted, const MeshCall& call) {
  constexpr std::size_t kNamed = 3;
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - call.start).count();
  std::vector<int> named;
  for (const Posted& each : posted)
    if (!each.done && named.size() < kNamed &&
        std::find(named.begin(), named.end(), each.peer) == named.end() &&
        wait(each, Clock::now() + kMoment / 4) != Waited::kDone)
      named.push_back(each.peer);
  if (named.empty()) named.push_back(posted.back().peer);  // it came just now
  return Error(
      ErrorCode::kPeer,
      fmt::format("{}: rank {} gave up after {} ms; {} {} had not {}", call.op, rank, waited,
                  named.size() == 1 ? "rank" : "ranks", fmt::join(named, ", "), call.awaited));
}

// A connection has ended. If its rank left after this call, all that it had for this call is here.
Status GlooMesh::State::settle(std::span<Posted> posted, const MeshCall& call, bool all_needed) {
  read_notices();
  if (told && told->call <= call.number) return gone(call);
  if (all_needed)
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank && broken(peer)) return gone(call);
  for (Posted& each : posted) {
    if (each.done || !broken(each.peer)) continue;
    if (wait(each, Clock::now() + kMoment) != Waited::kDone) return gone(call);
    each.done = true;
  }
  return {};
}

// gloo has no function to ask; but it begins no transfer on a connection that has ended.
bool GlooMesh::State::broken(int peer) {
  try {
    probe->send(peer, kProbeSlot, 0, 0);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

// A notice comes before the end of its connection.
void GlooMesh::State::read_notices() {
  {
    const std::lock_guard lock(mutex);
    heeded = true;
  }
  for_each_peer([&](int peer, Peer& state) {
    if (told || !broken(peer)) return;
    const Posted notice{state.notice.buffer.get(), true, peer};
    if (wait(notice, Clock::now() + kMoment) != Waited::kDone) return;
    auto failure = decode_notice({state.notice.memory.data(), kNoticeBytes});
    if (failure.ok()) told = *std::move(failure);
  });
}

// Why the call fails in which a connection has turned out to have ended.
Error GlooMesh::State::gone(const MeshCall& call) {
  // Notices are read after this: a rank that gives one and goes in between has not just left.
  std::vector<int> left;
  for_each_peer([&](int peer, Peer&) {
    if (broken(peer)) left.push_back(peer);
  });
  read_notices();
  if (told && told->call <= call.number) return told->error;
  return Error(ErrorCode::kPeer,
               fmt::format("{}: {} {} left the group", call.op, left.size() == 1 ? "rank" : "ranks",
                           fmt::join(left, ", ")));
}

void GlooMesh::State::close() {
  if (watcher.joinable()) {
    bell->abortWaitRecv();
    watcher.join();
  }
  // Buffers hold the context, and the context the connections.
  peers.clear();
  probe.reset();
  bell.reset();
  context.reset();
}

GlooMesh::GlooMesh(std::unique_ptr<State> state) : state_(std::move(state)) {}

GlooMesh::~GlooMesh() {
  const SigpipeBlocked blocked;
  state_->close();
}

const std::shared_ptr<GlooDevice>& GlooMesh::device() const { return state_->device; }

const std::string& GlooMesh::card() const { return state_->card; }

Result<std::unique_ptr<GlooMesh>> GlooMesh::open(std::shared_ptr<GlooDevice> device, int rank,
                                                 int size, std::size_t message_bytes) {
  const SigpipeBlocked blocked;
  auto state = std::make_unique<State>();
  state->device = std::move(device);
  state->rank = rank;
  state->size = size;
  state->message_bytes = message_bytes;
  try {
    state->card = state->open();
  } catch (const std::exception& e) {
    return Error(ErrorCode::kIo, fmt::format("rank {}: gloo opens no port: {}", rank, e.what()));
  }
  return std::unique_ptr<GlooMesh>(new GlooMesh(std::move(state)));
}

Status GlooMesh::connect(std::span<const std::string> cards, const MeshCall& call) {
  const SigpipeBlocked blocked;
  int now = state_->rank;
  try {
    for (int peer = 0; peer < state_->size; ++peer) {
      if (peer == state_->rank) continue;
      now = peer;
      SHARDKIT_ASSIGN(const Door door,
                      door_on_card(cards[static_cast<std::size_t>(peer)], state_->rank));
      if (!state_->connect(peer, door, call.deadline))
        return Error(ErrorCode::kPeer,
                     fmt::format("{}: rank {} had no connection with rank {} in time", call.op,
                                 state_->rank, peer));
    }
    state_->start();
  } catch (const std::exception& e) {
    return Error(ErrorCode::kPeer, fmt::format("{}: rank {} has no connection with rank {}: {}",
                                               call.op, state_->rank, now, e.what()));
  }
  return {};
}

Result<std::vector<std::string_view>> GlooMesh::exchange(std::span<const std::string> messages,
                                                         const MeshCall& call) {
  const SigpipeBlocked blocked;
  const std::size_t which = state_->exchanges % 2;
  std::vector<Posted> posted;
  std::vector<std::string_view> received(static_cast<std::size_t>(state_->size));
  try {
    state_->for_each_peer([&](int peer, State::Peer& state) {
      if (state_->exchanges > 0)
        state.in[1 - which].buffer->recv(peer, kMessageSlot, 0, state_->message_bytes);
      const std::string& message = messages[static_cast<std::size_t>(peer)];
      std::memcpy(state.out_memory.data(), message.data(), message.size());
      state.out->send(peer, kMessageSlot, 0, message.size());
      posted.push_back({state.in[which].buffer.get(), true, peer});
      received[static_cast<std::size_t>(peer)] = {state.in[which].memory.data(),
                                                  state_->message_bytes};
    });
    state_->for_each_peer([&](int peer, State::Peer& state) {
      posted.push_back({state.out.get(), false, peer});
    });
  } catch (const std::exception&) {
    return state_->gone(call);
  }
  ++state_->exchanges;
  SHARDKIT_TRY(state_->wait_all(posted, call, false));
  return received;
}

Status GlooMesh::move(std::span<const Sent> send, std::span<const Received> receive,
                      const MeshCall& call) {
  const SigpipeBlocked blocked;
  std::vector<std::unique_ptr<UnboundBuffer>> buffers;
  std::vector<Posted> posted;
  try {
    for (const Received& part : receive) {
      buffers.push_back(state_->context->createUnboundBuffer(part.bytes.data(), part.bytes.size()));
      buffers.back()->recv(part.peer, kPayloadSlot, 0, part.bytes.size());
      posted.push_back({buffers.back().get(), true, part.peer});
    }
    for (const Sent& part : send) {
      buffers.push_back(state_->context->createUnboundBuffer(
          const_cast<std::byte*>(part.bytes.data()), part.bytes.size()));
      buffers.back()->send(part.peer, kPayloadSlot, 0, part.bytes.size());
      posted.push_back({buffers.back().get(), false, part.peer});
    }
  } catch (const std::exception&) {
    return state_->gone(call);
  }
  return state_->wait_all(posted, call, true);
}

std::optional<MeshFailure> GlooMesh::told() {
  const SigpipeBlocked blocked;
  bool rung = false;
  {
    const std::lock_guard lock(state_->mutex);
    rung = state_->rung;
  }
  if (rung && state_->watcher.joinable()) state_->read_notices();
  return state_->told;
}

void GlooMesh::tell_and_close(const MeshFailure& failure) {
  const SigpipeBlocked blocked;
  if (!state_->watcher.joinable()) return;  // closed, or never connected
  std::string text = encode_notice(failure);
  const auto out = state_->context->createUnboundBuffer(text.data(), text.size());
  state_->for_each_peer([&](int peer, State::Peer&) {
    try {
      out->send(peer, kNoticeSlot, 0, text.size());
    } catch (const std::exception&) {
      // It cannot be told, nor need it be: it has left.
    }
  });
  state_->close();
}

}  // namespace shardkit
