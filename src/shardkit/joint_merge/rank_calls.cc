// The rounds: one exchange of messages, and two calls more where anyone has asked something.
#include "shardkit/joint_merge/rank_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "shardkit/collective/agreement.h"
#include "shardkit/collective/message.h"

namespace shardkit {
namespace {

/// How long a rank that has nothing to ask waits before the next round: others may have something,
/// and wait for it.
constexpr auto kPauseWhileOthersAsk = std::chrono::microseconds(500);
constexpr auto kPauseElse = std::chrono::milliseconds(20);

/// Answers that a rank holds in memory in one round; one may exceed it. The rest wait for the next.
constexpr std::size_t kAnswerBytes = 64 << 20;
/// No rank sends another more than this in a round.
constexpr std::int64_t kMostReceived = std::int64_t{1} << 30;

enum AnswerKind : std::int64_t { kAnswer, kError, kLater };

Error not_running() { return {ErrorCode::kInternal, "a rank is asked outside of a step"}; }

}  // namespace

/// What a rank tells in a round.
struct RankCalls::Said {
  struct Question {
    int to;
    std::string text;
  };
  int from = 0;
  bool done = false;
  std::string note;
  std::vector<Question> questions;
};

RankCalls::RankCalls(ProcessGroup& group, Answer answer)
    : group_(group), answer_(std::move(answer)), failure_(not_running()) {}

Status RankCalls::run(const std::function<Status()>& work, const Notes& notes,
                      const std::atomic<bool>* cancel) {
  {
    const std::lock_guard lock(mutex_);
    work_.reset();
    failure_.reset();
  }
  own_ = {};
  stopped_ = false;
  std::jthread worker;
  try {
    worker = std::jthread([this, &work] {
      Status status = work();
      const std::lock_guard lock(mutex_);
      work_ = std::move(status);
      asked_.notify_all();
    });
  } catch (const std::system_error&) {
    own_ = Error(ErrorCode::kLimit, "the system starts no thread to work in the background");
  }
  Status status = serve(notes, cancel);
  end_step(status.ok() ? nullptr : &status.error());
  if (worker.joinable()) worker.join();
  SHARDKIT_TRY(status);
  // What was heard in the last round may have failed.
  return agree_on_status(group_, std::move(own_));
}

void RankCalls::end_step(const Error* failure) {
  stopped_ = failure != nullptr;
  const std::lock_guard lock(mutex_);
  failure_ = failure != nullptr ? *failure : not_running();
  for (Call* call : open_) call->answer = *failure_;
  open_.clear();
  answered_.notify_all();
}

Status RankCalls::serve(const Notes& notes, const std::atomic<bool>* cancel) {
  for (bool others_ask = false;;) {
    std::vector<Open> mine;
    bool done = false;
    {
      std::unique_lock lock(mutex_);
      const auto has_news = [this, told = work_.has_value()] {
        return !open_.empty() || work_.has_value() != told;
      };
      if (others_ask) {
        asked_.wait_for(lock, kPauseWhileOthersAsk, has_news);
      } else {
        asked_.wait_for(lock, kPauseElse, has_news);
      }
      for (Call* call : open_) mine.push_back({call->rank, call});
      done = work_.has_value();
      if (done && own_.ok()) own_ = *work_;
    }
    if (cancel != nullptr && *cancel && own_.ok())
      own_ = Error(ErrorCode::kCancelled, "stopped on request");
    SHARDKIT_ASSIGN(const std::vector<Said> all, exchange(mine, done, notes));
    bool all_done = true;
    others_ask = false;
    for (const Said& said : all) {
      all_done = all_done && said.done;
      others_ask = others_ask || !said.questions.empty();
      if (!said.note.empty() && notes.hear && own_.ok()) own_ = notes.hear(said.from, said.note);
    }
    if (others_ask) SHARDKIT_TRY(send_answers(all, mine));
    if (all_done) return {};
  }
}

Result<std::vector<RankCalls::Said>> RankCalls::exchange(const std::vector<Open>& mine, bool done,
                                                         const Notes& notes) {
  Result<std::string> message = std::string();
  if (own_.ok()) {
    MessageWriter out;
    out.put(static_cast<std::int64_t>(done));
    out.put(notes.tell ? notes.tell() : std::string());
    out.put(static_cast<std::int64_t>(mine.size()));
    for (const Open& open : mine) {
      out.put(static_cast<std::int64_t>(open.rank));
      out.put(open.call->question);
    }
    message = std::move(out).take();
  } else {
    message = own_.error();
  }
  SHARDKIT_ASSIGN(const std::vector<std::string> messages,
                  exchange_messages(group_, std::move(message)));
  std::vector<Said> all;
  for (const std::string& bytes : messages) {
    MessageReader in(bytes);
    Said said;
    said.from = static_cast<int>(all.size());
    SHARDKIT_ASSIGN(const std::int64_t is_done, in.number_up_to(1));
    said.done = is_done != 0;
    SHARDKIT_ASSIGN(said.note, in.text());
    SHARDKIT_ASSIGN(const std::size_t questions, in.count());
    for (std::size_t i = 0; i < questions; ++i) {
      SHARDKIT_ASSIGN(const std::int64_t to, in.number_up_to(group_.size() - 1));
      SHARDKIT_ASSIGN(std::string text, in.text());
      said.questions.push_back({static_cast<int>(to), std::move(text)});
    }
    SHARDKIT_TRY(in.expect_end());
    all.push_back(std::move(said));
  }
  return all;
}

std::string RankCalls::answers_for(const Said& asker, std::size_t& left) {
  MessageWriter out;
  for (const Said::Question& question : asker.questions) {
    if (question.to != group_.rank()) continue;
    if (left == 0) {
      out.put(std::int64_t{kLater});
      continue;
    }
    const auto answer = answer_(question.text);
    if (answer.ok()) {
      left -= std::min(left, answer->size());
      out.put(std::int64_t{kAnswer});
      out.put(*answer);
    } else {
      out.put(std::int64_t{kError});
      out.put(static_cast<std::int64_t>(answer.error().code()));
      out.put(answer.error().message());
    }
  }
  return std::move(out).take();
}

Status RankCalls::send_answers(const std::vector<Said>& all, const std::vector<Open>& mine) {
  const std::size_t size = all.size();
  std::vector<std::string> answers(size);
  std::size_t left = kAnswerBytes;
  ++round_;
  // Another rank is the first in each round, so that nobody is put off for ever.
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t asker = (i + round_) % size;
    answers[asker] = answers_for(all[asker], left);
  }
  std::vector<std::int64_t> sizes(size), received_sizes(size);
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  for (std::size_t rank = 0; rank < size; ++rank) {
    sizes[rank] = static_cast<std::int64_t>(answers[rank].size());
    send.push_back(std::as_bytes(std::span(sizes).subspan(rank, 1)));
    receive.push_back(std::as_writable_bytes(std::span(received_sizes).subspan(rank, 1)));
  }
  SHARDKIT_TRY(group_.all_to_all(send, receive));
  std::vector<std::string> received(size);
  for (std::size_t rank = 0; rank < size; ++rank) {
    if (received_sizes[rank] < 0 || received_sizes[rank] > kMostReceived)
      return Error(ErrorCode::kPeer, fmt::format("rank {} has an answer that is too large", rank))
          .expected(fmt::format("at most {} bytes", kMostReceived))
          .found(std::to_string(received_sizes[rank]));
    received[rank].resize(static_cast<std::size_t>(received_sizes[rank]));
    send[rank] = std::as_bytes(std::span(answers[rank]));
    receive[rank] = std::as_writable_bytes(std::span(received[rank]));
  }
  SHARDKIT_TRY(group_.all_to_all(send, receive));
  for (std::size_t rank = 0; rank < size; ++rank)
    SHARDKIT_TRY(take_answers(static_cast<int>(rank), received[rank], mine));
  return {};
}

Status RankCalls::take_answers(int rank, std::string_view bytes, const std::vector<Open>& mine) {
  MessageReader in(bytes);
  for (const Open& open : mine) {
    if (open.rank != rank) continue;
    SHARDKIT_ASSIGN(const std::int64_t kind, in.number_up_to(kLater));
    if (kind == kLater) continue;
    std::optional<Result<std::string>> answer;
    if (kind == kAnswer) {
      SHARDKIT_ASSIGN(std::string text, in.text());
      answer = std::move(text);
    } else {
      SHARDKIT_ASSIGN(const std::int64_t code,
                      in.number_up_to(static_cast<std::int64_t>(ErrorCode::kInternal)));
      SHARDKIT_ASSIGN(const std::string text, in.text());
      answer = Error(static_cast<ErrorCode>(code), fmt::format("{} (on rank {})", text, rank));
    }
    const std::lock_guard lock(mutex_);
    open.call->answer = std::move(answer);
    std::erase(open_, open.call);
    answered_.notify_all();
  }
  return in.expect_end();
}

void RankCalls::wait_for_answers(std::vector<Call>& calls) {
  std::unique_lock lock(mutex_);
  if (failure_) {
    for (Call& call : calls) call.answer = *failure_;
    return;
  }
  for (Call& call : calls) open_.push_back(&call);
  asked_.notify_all();
  answered_.wait(lock, [&calls] {
    return std::all_of(calls.begin(), calls.end(),
                       [](const Call& call) { return call.answer.has_value(); });
  });
}

Status RankCalls::check_goes_on() {
  const std::lock_guard lock(mutex_);
  if (failure_) return *failure_;
  return {};
}

Result<std::string> RankCalls::ask(int rank, std::string question) {
  std::vector<Call> calls;
  calls.push_back({rank, std::move(question), std::nullopt});
  wait_for_answers(calls);
  return *std::move(calls.front().answer);
}

std::vector<Result<std::string>> RankCalls::ask_others(const std::string& question) {
  std::vector<Call> calls;
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.rank()) calls.push_back({rank, question, std::nullopt});
  wait_for_answers(calls);
  std::vector<Result<std::string>> answers(static_cast<std::size_t>(group_.size()), not_running());
  for (Call& call : calls) answers[static_cast<std::size_t>(call.rank)] = *std::move(call.answer);
  return answers;
}

}  // namespace shardkit
