// Signals: SIGINT and SIGTERM ask the work to stop, so that it can clean up after itself.
#pragma once

#include <atomic>

namespace shardkit::cli {

/// Takes over SIGINT and SIGTERM. A second one ends the process at once.
void handle_stop_signals();

/// Set by the first of them.
const std::atomic<bool>& stop_requested();

/// 128 + the signal that came: what the shell expects of a program that was stopped. kInterrupted
/// where none came to this process, but to another rank.
int stop_exit_code();

}  // namespace shardkit::cli
