#include "cli/signals.h"

#include <csignal>

#include "cli/command.h"

namespace shardkit::cli {
namespace {

std::atomic<bool> requested = false;
std::atomic<int> signal_number = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "they are set by a signal handler");

void on_signal(int number) {
  requested = true;
  signal_number = number;
}

}  // namespace

void handle_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  // The second signal finds the default action again: whoever insists is not made to wait.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

const std::atomic<bool>& stop_requested() { return requested; }

int stop_exit_code() { return signal_number == 0 ? kInterrupted : 128 + signal_number; }

}  // namespace shardkit::cli
