// Rendezvous: the place where threads that are ranks of one group meet, work and part.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "shardkit/collective/collective_call.h"

namespace shardkit {

/// Shared by the ranks of a thread group. All functions are for any thread.
///
/// A call of all ranks is a round: each comes; when the last has come and their calls fit, each
/// does its part of the work without a lock, reading and writing the others' buffers; when all are
/// done, the round is over and all go. So nobody's buffer is gone while another works on it: a rank
/// that goes early, because something failed, waits for those at work to stop at their next look.
class Rendezvous {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Visit {
    const CollectiveCall* call = nullptr;
    std::shared_ptr<Rendezvous> offer;  ///< of split: where a subgroup's first rank lets it meet
    /// What this rank receives in pieces that all ranks copy; the first that none has taken yet.
    std::size_t large_pieces = 0;
    mutable std::atomic<std::size_t> next_piece = 0;
  };
  /// To be asked between pieces of work: true ends it.
  using ShouldStop = std::function<bool()>;
  /// @return false if it was ended
  using Work = std::function<bool(std::span<const Visit* const> visits, const ShouldStop& stop)>;

  /// @param outermost  for each rank its rank in the group that was not split from another
  explicit Rendezvous(std::vector<int> outermost);

  const std::vector<int>& outermost() const { return outermost_; }

  /// One round. `work` is called at most once, and only if all ranks' calls fit.
  /// @error as ProcessGroup
  Status meet(std::size_t rank, const Visit& visit, TimePoint deadline, const Work& work);

  /// The rank comes no more: those who wait for it fail.
  void leave(std::size_t rank);

  /// Makes every call fail from now on; the error, or that of an earlier failure.
  Error fail(Error error);

 private:
  enum class Place { kAway, kCome, kDone, kGone };
  using Lock = std::unique_lock<std::mutex>;

  std::vector<std::size_t> ranks_at(Place place) const;
  Error late_error(std::size_t rank, std::string_view op, Place place, TimePoint came) const;
  std::optional<Error> gone_error(std::string_view op) const;
  Error unusable() const;
  void record(Error error);
  Status leave_failed(Lock& lock);

  const std::vector<int> outermost_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Place> places_;
  std::vector<const Visit*> visits_;  // valid while work is allowed
  std::uint64_t round_ = 0;
  bool working_ = false;     // in this round all have come and their calls fit
  std::size_t workers_ = 0;  // ranks at work
  std::optional<Error> failure_;
  std::atomic<bool> failed_ = false;  // the same, for those at work
};

}  // namespace shardkit
