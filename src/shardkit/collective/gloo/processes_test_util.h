// Ranks that are processes of the test's own: forked, and asked for their Status through a pipe.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "shardkit/base/result.h"
#include "shardkit/collective/conformance_test_util.h"
#include "shardkit/collective/gloo/gloo_group.h"
#include "shardkit/collective/message.h"
#include "shardkit/testing/temp_dir.h"

namespace shardkit::testing {

inline std::string encode_status(const Status& status) {
  MessageWriter out;
  out.put(static_cast<std::int64_t>(status.ok() ? -1 : static_cast<int>(status.error().code())));
  out.put(status.ok() ? "" : status.error().what());
  return std::move(out).take();
}

inline Status decode_status(std::string_view bytes) {
  MessageReader in(bytes);
  SHARDKIT_ASSIGN(const auto code, in.number());
  SHARDKIT_ASSIGN(std::string text, in.text());
  if (code < 0) return {};
  return Error(static_cast<ErrorCode>(code), std::move(text));
}

/// Runs `fn` as each of `size` processes and returns what each returned; for one that was killed,
/// kInternal with "killed by signal". REQUIRES: the test has no threads
inline std::vector<Status> run_processes(int size, const std::function<Status(int rank)>& fn) {
  struct Child {
    pid_t pid;
    int result;
  };
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) {
    std::array<int, 2> pipe_ends{};
    EXPECT_EQ(::pipe(pipe_ends.data()), 0);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      const std::string bytes = encode_status(fn(rank));
      const bool written =
          ::write(pipe_ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
      ::_exit(written ? 0 : 1);
    }
    ::close(pipe_ends[1]);
    children.push_back({pid, pipe_ends[0]});
  }
  std::vector<Status> statuses;
  for (const Child& child : children) {
    std::string bytes;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::read(child.result, piece.data(), piece.size())) > 0;)
      bytes.append(piece.data(), static_cast<std::size_t>(count));
    ::close(child.result);
    int how = 0;
    ::waitpid(child.pid, &how, 0);
    if (WIFSIGNALED(how))
      statuses.push_back(
          Error(ErrorCode::kInternal, "killed by signal " + std::to_string(WTERMSIG(how))));
    else
      statuses.push_back(decode_status(bytes));
  }
  return statuses;
}

/// Options of groups on this host, in which a failing test shall end.
inline GlooOptions gloo_test_options(const GroupOptions& options = {std::chrono::minutes(1)}) {
  GlooOptions gloo;
  gloo.group = options;
  gloo.start_timeout = std::chrono::minutes(1);
  gloo.host = "127.0.0.1";
  return gloo;
}

/// The same as ranks of a group that meet in a folder.
inline std::vector<Status> run_gloo_ranks(int size, const RankFn& fn, const GroupOptions& options) {
  const TempDir folder;
  return run_processes(size, [&](int rank) -> Status {
    SHARDKIT_ASSIGN(auto group,
                    make_gloo_group(folder.path(), rank, size, gloo_test_options(options)));
    return fn(*group);
  });
}

}  // namespace shardkit::testing
