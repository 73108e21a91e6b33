// ProgressLine: how far long work has come, on a terminal or in a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "cli/command.h"
#include "shardkit/transfer/transfer.h"

namespace shardkit::cli {

/// On a terminal one line that is drawn anew, with a bar, the rate and the time left; elsewhere a
/// plain line every ten seconds. Work that ends sooner prints nothing in a log.
class ProgressLine {
 public:
  /// @param work  "merge": what a line in a log starts with
  ProgressLine(Streams& streams, std::string_view work) : streams_(streams), work_(work) {}

  /// @param more  follows the numbers
  void update(const Progress& progress, std::string_view more = {});
  /// A line of its own.
  void note(std::string_view text);
  /// Ends the line on a terminal, so that what follows starts on its own.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  Streams& streams_;
  const std::string_view work_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_log_ = Clock::now();
  bool drawn_ = false;
};

}  // namespace shardkit::cli
