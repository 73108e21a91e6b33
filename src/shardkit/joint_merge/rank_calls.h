// RankCalls: what threads of one rank ask other ranks, while all ranks work at a step together.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/process_group.h"

namespace shardkit {

/// A process group knows only calls in which all ranks take part. So while ranks work, each on
/// threads of its own, the thread that called run() goes round after round: in each, all ranks tell
/// each other what their threads want to know, whether their work is done, and what went wrong;
/// then they send the answers.
///
/// A rank whose work fails, or that is gone, so ends the step on all ranks at the next round.
class RankCalls {
 public:
  /// What this rank answers to a question of another; on the thread that called run().
  using Answer = std::function<Result<std::string>(std::string_view question)>;

  /// What ranks tell each other in every round of a step, beside questions.
  struct Notes {
    std::function<std::string()> tell;  ///< for all ranks; empty: nothing
    /// @param from  may be this rank
    std::function<Status(int from, std::string_view note)> hear;
  };

  /// @param group  outlives this; nobody else uses it while run() lasts
  RankCalls(ProcessGroup& group, Answer answer);

  /// Does a step on all ranks: `work`, on a thread of its own, and rounds until all are done.
  /// Collective. The last note that a rank tells is of after its work.
  ///
  /// @param cancel  set: this rank's step fails, with kCancelled. May be null
  /// @error the error of the lowest rank that has one, the same on all ranks, with its rank named;
  ///        kLimit no thread; or as ProcessGroup. This rank's work has ended then; other ranks' may
  ///        still do.
  Status run(const std::function<Status()>& work, const Notes& notes = {},
             const std::atomic<bool>* cancel = nullptr);

  /// Set while a step has failed: what `work` does is of no use any more.
  const std::atomic<bool>& is_stopped() const { return stopped_; }

  /// @error that of the step, which has failed
  Status check_goes_on();

  /// Asks another rank and waits for the answer. For any thread of `work`.
  /// @error as its Answer, with its rank named; or that of the step, which failed
  Result<std::string> ask(int rank, std::string question);

  /// Asks all other ranks at once. @return by rank; of this rank itself, kInternal
  std::vector<Result<std::string>> ask_others(const std::string& question);

  const ProcessGroup& group() const { return group_; }

 private:
  struct Call {
    int rank;
    std::string question;
    std::optional<Result<std::string>> answer;
  };
  /// A call of a round. Only looked into until it is answered: then it is the asker's again.
  struct Open {
    int rank;
    Call* call;
  };
  struct Said;

  Status serve(const Notes& notes, const std::atomic<bool>* cancel);
  Result<std::vector<Said>> exchange(const std::vector<Open>& mine, bool done, const Notes& notes);
  std::string answers_for(const Said& asker, std::size_t& left);
  Status send_answers(const std::vector<Said>& all, const std::vector<Open>& mine);
  Status take_answers(int rank, std::string_view bytes, const std::vector<Open>& mine);
  void wait_for_answers(std::vector<Call>& calls);
  void end_step(const Error* failure);

  ProcessGroup& group_;
  const Answer answer_;
  std::size_t round_ = 0;
  Status own_;  // what went wrong in rounds, to be told in the next one
  std::atomic<bool> stopped_ = false;

  std::mutex mutex_;  // of all below
  std::condition_variable asked_;
  std::condition_variable answered_;
  std::optional<Status> work_;    // how it ended
  std::optional<Error> failure_;  // why nobody answers
  std::deque<Call*> open_;
};

}  // namespace shardkit
