// ProcessGroup: N ranks that move bytes between each other; every call has a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "shardkit/base/result.h"
#include "shardkit/collective/collective_call.h"
#include "shardkit/tensor/accumulate.h"

namespace shardkit {

struct GroupOptions {
  /// How long a call may take, unless it says otherwise; torch.distributed has the same default
  /// (torch 2.13, distributed/constants.py).
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// One rank's end of a group of `size()` ranks.
///
/// **Who calls.** Every function below, except rank() and size(), is collective: all ranks call the
/// same functions in the same order, with arguments that fit together. One thread at a time uses an
/// object; different groups may be used by different threads at once, also groups of one rank.
///
/// **Buffers** belong to the caller and are touched, by all ranks, only while the call lasts.
/// REQUIRES: what is filled overlaps nothing else of the call, on any rank; where a function can
/// work in place, it says so. Sizes are in bytes and may be 0.
///
/// **Success** means that all ranks have succeeded: either all get it or none does.
///
/// **Errors**, the same code on all ranks that are still there:
/// - kPeer: a rank came too late, left, or did not finish in time; the message names it. A rank
///   leaves when its object is destroyed. What was to be filled holds unspecified bytes.
/// - kInvalidArgument: a rank's arguments are wrong, or do not fit another's (sizes, root, dtype,
///   order of calls); the message names the rank. Nothing has been written. Two calls that differ
///   in their data alone cannot be told apart.
/// - kUnsupported: as accumulator_dtype(); nothing has been written.
/// After any error the group is unusable: every later call fails at once with the same code, and
/// says so and why. Groups split from it live on.
///
/// **Deadlines.** `timeout` bounds each call of each rank, from its beginning; absent, it is the
/// group's. A call returns within it, give or take the time to copy a few MiB. 0 or less: it can
/// succeed only if all others wait already, and copies at most 4 MiB or reduces at most 32 Ki
/// elements. So it does in a group of one.
class ProcessGroup {
 public:
  using Timeout = std::optional<std::chrono::milliseconds>;
  using Readable = std::span<const std::byte>;
  using Writable = std::span<std::byte>;

  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }  ///< 0 to size() - 1
  int size() const { return size_; }  ///< at least 1

  /// Fills `buffer` on all ranks with that of rank `root`. The same size everywhere.
  Status broadcast(Writable buffer, int root, Timeout timeout = {});

  /// Fills all[r] with `mine` of rank r, whose size it has. all.size() == size(). In place if
  /// `mine` is all[rank()].
  Status all_gather(Readable mine, std::span<const Writable> all, Timeout timeout = {});

  /// The same where all ranks have as many bytes: `all` is size() times as large as `mine`, and
  /// rank r's bytes stand at r * mine.size(). In place as above.
  Status all_gather(Readable mine, Writable all, Timeout timeout = {});

  /// Fills all[r] on rank `root` with `mine` of rank r; `all` is empty on the other ranks. In place
  /// if the root's `mine` is all[root].
  Status gather(Readable mine, std::span<const Writable> all, int root, Timeout timeout = {});

  /// Fills `mine` on each rank r with all[r] of rank `root`; `all` is empty on the other ranks. In
  /// place if the root's `mine` is all[root].
  Status scatter(std::span<const Readable> all, Writable mine, int root, Timeout timeout = {});

  /// Fills receive[r] with send[rank()] of rank r, whose size it has. Both have size() entries.
  /// What this rank sends itself is in place if send[rank()] is receive[rank()]; others may get it
  /// too.
  Status all_to_all(std::span<const Readable> send, std::span<const Writable> receive,
                    Timeout timeout = {});

  /// Replaces `buffer` on all ranks by the reduction of all ranks' buffers, element by element.
  ///
  /// The addends are taken in the order of ranks, in the type that accumulator_dtype() names, and
  /// the result is rounded once: it is the same on all ranks and in all runs, whatever the backend.
  ///
  /// @param dtype   of the elements; the same on all ranks, as are `op` and the size
  /// @param buffer  whole elements; no alignment needed
  Status all_reduce(Accumulation op, DType dtype, Writable buffer, Timeout timeout = {});

  /// Returns when all ranks have called it.
  Status barrier(Timeout timeout = {});

  /// Makes subgroups: as many at once as there are different lists.
  ///
  /// @param ranks  the ranks of this group that are to form this rank's subgroup, itself among
  ///               them, in the order of their new ranks; or empty, and null is returned. All ranks
  ///               of a list pass that list.
  /// @return a group with this one's timeout; it may outlive this one
  Result<std::unique_ptr<ProcessGroup>> split(std::span<const int> ranks, Timeout timeout = {});

  /// Makes a subgroup of all ranks that pass the same color, in the order of their keys, equal keys
  /// in the order of ranks; as MPI_Comm_split. A negative color joins none, and null is returned.
  Result<std::unique_ptr<ProcessGroup>> split(int color, int key, Timeout timeout = {});

 protected:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// REQUIRES: 0 <= rank < size
  ProcessGroup(int rank, int size, const GroupOptions& options)
      : rank_(rank), size_(size), options_(options) {}
  const GroupOptions& options() const { return options_; }

 private:
  // What a backend does. The calls they get are complete and right in themselves; whether they fit
  // those of other ranks is for the backend to see (check_calls_fit()), before it writes anything.

  /// Carries out any call but kSplit.
  virtual Status run(const CollectiveCall& call, TimePoint deadline) = 0;
  /// Carries out a kSplit. REQUIRES of the result: null where call.ranks is empty.
  virtual Result<std::unique_ptr<ProcessGroup>> run_split(const CollectiveCall& call,
                                                          TimePoint deadline) = 0;
  /// This rank's call is wrong in itself: makes the group unusable on all ranks, with this error;
  /// returns it, or the one that made the group unusable before.
  virtual Error refuse(Error error) = 0;

  Error wrong(const CollectiveCall& call, std::string what);
  Status run_rooted(const CollectiveCall& call, Timeout timeout);
  Result<std::unique_ptr<ProcessGroup>> split_until(std::span<const int> ranks, TimePoint deadline);
  TimePoint deadline_after(Timeout timeout) const;

  int rank_;
  int size_;
  GroupOptions options_;
};

}  // namespace shardkit
