// Rendezvous: one mutex, one condition variable, and who is where.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "shardkit/collective/rendezvous_internal.h"
#include "shardkit/collective/subgroup_ranks_internal.h"

namespace shardkit {
namespace {

std::string ranks_text(const std::vector<std::size_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

Rendezvous::Rendezvous(std::vector<int> outermost)
    : outermost_(std::move(outermost)),
      places_(outermost_.size(), Place::kAway),
      visits_(outermost_.size(), nullptr) {}

Status Rendezvous::meet(std::size_t rank, const Visit& visit, TimePoint deadline,
                        const Work& work) {
  const TimePoint came = std::chrono::steady_clock::now();
  const std::string_view op = to_string(visit.call->op);
  Lock lock(mutex_);
  if (failure_) return unusable();
  if (auto gone = gone_error(op)) {
    record(*std::move(gone));
    return leave_failed(lock);
  }
  const std::uint64_t round = round_;
  places_[rank] = Place::kCome;
  visits_[rank] = &visit;
  if (ranks_at(Place::kCome).size() == places_.size()) {
    std::vector<CallShape> calls;
    for (const Visit* each : visits_) calls.push_back(shape_of(*each->call));
    if (Status fit = check_calls_fit(calls); fit.ok())
      working_ = true;
    else
      record(std::move(fit).error());
    changed_.notify_all();
  }
  const bool all_came =
      changed_.wait_until(lock, deadline, [this] { return failure_ || working_; });
  if (!all_came) record(late_error(rank, op, Place::kAway, came));
  if (failure_) return leave_failed(lock);

  ++workers_;
  lock.unlock();
  const bool done = work(visits_, [this, deadline] {
    return failed_.load(std::memory_order_relaxed) || std::chrono::steady_clock::now() > deadline;
  });
  lock.lock();
  --workers_;
  if (!done && !failure_) record(late_error(rank, op, Place::kCome, came));
  if (failure_) return leave_failed(lock);

  places_[rank] = Place::kDone;
  if (ranks_at(Place::kDone).size() == places_.size()) {
    std::fill(places_.begin(), places_.end(), Place::kAway);
    working_ = false;
    ++round_;
    changed_.notify_all();
    return {};
  }
  const bool over =
      changed_.wait_until(lock, deadline, [this, round] { return round_ != round || failure_; });
  // A failure of a later round is not ours.
  if (round_ != round) return {};
  if (!over) record(late_error(rank, op, Place::kCome, came));
  return leave_failed(lock);
}

void Rendezvous::leave(std::size_t rank) {
  const Lock lock(mutex_);
  places_[rank] = Place::kGone;
  // Where nobody has come yet, whoever comes next will see it.
  const auto waiting = std::find(places_.begin(), places_.end(), Place::kCome);
  if (waiting == places_.end() || failure_) return;
  const auto first = static_cast<std::size_t>(waiting - places_.begin());
  record(*gone_error(to_string(visits_[first]->call->op)));
}

Error Rendezvous::fail(Error error) {
  const Lock lock(mutex_);
  if (failure_) return unusable();
  record(std::move(error));
  return *failure_;
}

std::vector<std::size_t> Rendezvous::ranks_at(Place place) const {
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (places_[i] == place) ranks.push_back(i);
  return ranks;
}

Error Rendezvous::late_error(std::size_t rank, std::string_view op, Place place,
                             TimePoint came) const {
  const auto ranks = ranks_at(place);
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - came);
  return Error(ErrorCode::kPeer, fmt::format("{}: rank {} gave up after {} ms; {} had not {}", op,
                                             rank, waited.count(), ranks_text(ranks),
                                             place == Place::kAway ? "come" : "finished"));
}

std::optional<Error> Rendezvous::gone_error(std::string_view op) const {
  const auto gone = ranks_at(Place::kGone);
  if (gone.empty()) return std::nullopt;
  return Error(ErrorCode::kPeer, fmt::format("{}: {} left the group", op, ranks_text(gone)));
}

Error Rendezvous::unusable() const {
  return Error(
      failure_->code(),
      fmt::format("the process group is unusable since an earlier error: {}", failure_->what()));
}

void Rendezvous::record(Error error) {
  failure_ = with_outermost_ranks(std::move(error), outermost_);
  failed_ = true;
  changed_.notify_all();
}

Status Rendezvous::leave_failed(Lock& lock) {
  // The last one at work, too, comes by here.
  if (workers_ == 0) changed_.notify_all();
  changed_.wait(lock, [this] { return workers_ == 0; });
  return *failure_;
}

}  // namespace shardkit
