// Thread groups: each rank copies or reduces its part between the ranks' own buffers.
#include "shardkit/collective/thread_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

#include "shardkit/collective/rank_order_reduction_internal.h"
#include "shardkit/collective/rendezvous_internal.h"

namespace shardkit {
namespace {

using Visits = std::span<const Rendezvous::Visit* const>;

// What ranks share the copies in: a huge page.
constexpr std::size_t kPieceBytes = 2 << 20;
// What a rank copies between two looks at the clock: some milliseconds' worth at most.
constexpr std::size_t kLookBytes = 4 << 20;
// Elements that are reduced between two looks at the clock.
constexpr std::size_t kReduceElements = 32 << 10;

/// One rank's bytes for one rank.
struct Message {
  std::span<const std::byte> from;
  std::span<std::byte> to;

  bool is_in_place() const { return from.data() == to.data(); }
  bool is_large() const { return to.size() >= kPieceBytes && !is_in_place(); }
  bool is_small() const { return !to.empty() && to.size() < kPieceBytes && !is_in_place(); }
  std::size_t pieces() const { return (to.size() + kPieceBytes - 1) / kPieceBytes; }
  std::size_t copy_piece(std::size_t i) const {
    const std::size_t begin = i * kPieceBytes;
    const std::size_t bytes = std::min(kPieceBytes, to.size() - begin);
    std::memcpy(to.data() + begin, from.data() + begin, bytes);
    return bytes;
  }
};

Message message(Visits visits, std::size_t sender, std::size_t receiver) {
  return {visits[sender]->call->sent_to(receiver), visits[receiver]->call->received_from(sender)};
}

// Pieces of what `rank` receives. Only what it sends itself can be in place already.
std::size_t count_large_pieces(const CollectiveCall& call, std::size_t rank) {
  std::size_t pieces = 0;
  for (std::size_t sender = 0; sender < call.receive.size(); ++sender) {
    Message each{{}, call.receive[sender]};
    if (sender == rank) each.from = call.sent_to(rank);
    if (each.is_large()) pieces += each.pieces();
  }
  return pieces;
}

// What is less than a piece is copied by the rank that receives it. All else is cut into pieces
// that ranks take as they are free, so that those copy, too, which receive little themselves: the
// senders of a gather, the root of a scatter. Each begins with what it receives itself.
bool move_all(std::size_t rank, Visits visits, const Rendezvous::ShouldStop& stop) {
  const std::size_t ranks = visits.size();
  std::size_t since_look = 0;
  const auto copy_piece = [&](const Message& each, std::size_t i) {
    if (since_look >= kLookBytes) {
      if (stop()) return false;
      since_look = 0;
    }
    since_look += each.copy_piece(i);
    return true;
  };
  for (std::size_t sender = 0; sender < ranks; ++sender) {
    const Message small = message(visits, sender, rank);
    if (small.is_small() && !copy_piece(small, 0)) return false;
  }
  for (std::size_t i = 0; i < ranks; ++i) {
    const std::size_t receiver = (rank + i) % ranks;
    const std::size_t end = visits[receiver]->large_pieces;
    std::atomic<std::size_t>& next_piece = visits[receiver]->next_piece;
    // Mostly nothing is left: without a write, which would take the line from the others' caches.
    if (next_piece.load(std::memory_order_relaxed) >= end) continue;
    std::size_t piece = next_piece.fetch_add(1, std::memory_order_relaxed);
    std::size_t first = 0;  // piece of the message
    for (std::size_t sender = 0; sender < ranks && piece < end; ++sender) {
      const Message large = message(visits, sender, receiver);
      if (!large.is_large()) continue;
      for (; piece < first + large.pieces();
           piece = next_piece.fetch_add(1, std::memory_order_relaxed))
        if (!copy_piece(large, piece - first)) return false;
      first += large.pieces();
    }
  }
  return true;
}

// Reduces this rank's part of the elements and writes it into the buffers of all: nobody else
// reads or writes that part of any buffer.
bool reduce_part(std::size_t rank, Visits visits, const Rendezvous::ShouldStop& stop) {
  const CollectiveCall& mine = *visits[rank]->call;
  const auto item = static_cast<std::size_t>(item_bytes(mine.dtype));
  const std::size_t ranks = visits.size();
  const std::size_t elements = mine.buffer.size() / item;
  const std::size_t share = elements / ranks;
  const std::size_t larger = elements % ranks;  // ranks whose part has one element more
  const std::size_t begin = rank * share + std::min(rank, larger);
  const std::size_t end = begin + share + (rank < larger ? 1 : 0);

  std::vector<std::span<const std::byte>> parts(ranks);
  for (std::size_t i = begin; i < end; i += kReduceElements) {
    if (i != begin && stop()) return false;
    const std::size_t count = std::min(kReduceElements, end - i);
    for (std::size_t owner = 0; owner < ranks; ++owner)
      parts[owner] = visits[owner]->call->buffer.subspan(i * item, count * item);
    const auto out = mine.buffer.subspan(i * item, count * item);
    reduce_in_rank_order(mine.accumulation, mine.dtype, parts, out);
    for (std::size_t owner = 0; owner < ranks; ++owner)
      if (owner != rank)
        std::memcpy(visits[owner]->call->buffer.data() + i * item, out.data(), out.size());
  }
  return true;
}

class ThreadGroup final : public ProcessGroup {
 public:
  ThreadGroup(int rank, std::shared_ptr<Rendezvous> place, const GroupOptions& options)
      : ProcessGroup(rank, static_cast<int>(place->outermost().size()), options),
        index_(static_cast<std::size_t>(rank)),
        place_(std::move(place)) {}
  ~ThreadGroup() override { place_->leave(index_); }

 private:
  Status run(const CollectiveCall& call, TimePoint deadline) override {
    return place_->meet(index_, {&call, nullptr, count_large_pieces(call, index_)}, deadline,
                        [&](Visits visits, const Rendezvous::ShouldStop& stop) {
                          return call.op == CollectiveOp::kAllReduce
                                     ? reduce_part(index_, visits, stop)
                                     : move_all(index_, visits, stop);
                        });
  }

  Result<std::unique_ptr<ProcessGroup>> run_split(const CollectiveCall& call,
                                                  TimePoint deadline) override {
    Rendezvous::Visit visit{&call, nullptr};
    if (!call.ranks.empty() && call.ranks.front() == rank()) {
      std::vector<int> outermost;
      for (const int each : call.ranks)
        outermost.push_back(place_->outermost()[static_cast<std::size_t>(each)]);
      visit.offer = std::make_shared<Rendezvous>(std::move(outermost));
    }
    std::shared_ptr<Rendezvous> subplace;
    SHARDKIT_TRY(
        place_->meet(index_, visit, deadline, [&](Visits visits, const Rendezvous::ShouldStop&) {
          if (!call.ranks.empty())
            subplace = visits[static_cast<std::size_t>(call.ranks.front())]->offer;
          return true;
        }));
    if (call.ranks.empty()) return std::unique_ptr<ProcessGroup>();
    const auto mine = std::find(call.ranks.begin(), call.ranks.end(), rank());
    return std::make_unique<ThreadGroup>(static_cast<int>(mine - call.ranks.begin()),
                                         std::move(subplace), options());
  }

  Error refuse(Error error) override { return place_->fail(std::move(error)); }

  std::size_t index_;
  std::shared_ptr<Rendezvous> place_;
};

Status run_guarded(const std::function<Status(ProcessGroup&)>& fn, ProcessGroup& group) {
  const auto threw = [&](std::string_view text) {
    return Error(ErrorCode::kInternal, fmt::format("rank {} threw: {}", group.rank(), text));
  };
  try {
    return fn(group);
  } catch (const std::exception& e) {
    return threw(e.what());
  } catch (...) {
    return threw("no std::exception");
  }
}

}  // namespace

std::vector<std::unique_ptr<ProcessGroup>> make_thread_groups(int size,
                                                              const GroupOptions& options) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto place = std::make_shared<Rendezvous>(ranks);
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (const int rank : ranks)
    groups.push_back(std::make_unique<ThreadGroup>(rank, place, options));
  return groups;
}

std::vector<Status> run_ranks(int size, const std::function<Status(ProcessGroup&)>& fn,
                              const GroupOptions& options) {
  auto groups = make_thread_groups(size, options);
  std::vector<Status> statuses(groups.size());
  std::vector<std::jthread> threads;
  threads.reserve(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    try {
      threads.emplace_back([&fn, &status = statuses[i], group = std::move(groups[i])]() mutable {
        status = run_guarded(fn, *group);
        group.reset();
      });
    } catch (const std::system_error& e) {
      statuses[i] = Error(ErrorCode::kLimit,
                          fmt::format("no thread can be started for rank {}: {}", i, e.what()));
      groups[i].reset();  // the others shall not wait for it
    }
  }
  threads.clear();
  return statuses;
}

}  // namespace shardkit
