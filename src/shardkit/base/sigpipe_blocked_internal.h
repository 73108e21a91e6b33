// SigpipeBlocked: no signal from writing to a connection whose other end is gone.
#pragma once

#include <signal.h>

namespace shardkit {

/// While it lives, a write to a closed connection is an error and not a signal, in this thread
/// and in those that it starts: gloo, and libcurl with CURLOPT_NOSIGNAL, leave that to their user.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeBlocked() {
    const timespec now{};
    if (!was_pending_ && sigismember(&before_, SIGPIPE) == 0)
      while (sigtimedwait(&sigpipe_, nullptr, &now) == SIGPIPE) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t before_;
  bool was_pending_;
};

}  // namespace shardkit
