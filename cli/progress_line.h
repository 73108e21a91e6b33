// ProgressLine: how far long work has come, on a terminal or in a log.
#pragma once

#include <chrono>
#include <cstdint>

#include "cli/command.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit::cli {

/// On a terminal one line that is drawn anew, with a bar, the rate and the time left; elsewhere a
/// plain line every ten seconds. Work that ends sooner prints nothing in a log.
class ProgressLine {
 public:
  explicit ProgressLine(Streams& streams) : streams_(streams) {}

  void update(const Progress& progress);
  /// Ends the line on a terminal, so that what follows starts on its own.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  Streams& streams_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_log_ = Clock::now();
  bool drawn_ = false;
};

}  // namespace shardkit::cli
