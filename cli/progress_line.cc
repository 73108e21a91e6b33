#include "cli/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "shardkit/base/size_text.h"

namespace shardkit::cli {
namespace {

constexpr std::size_t kBarWidth = 30;

std::string time_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  return fmt::format("{}:{:02} min", whole / 60, whole % 60);
}

}  // namespace

void ProgressLine::update(const Progress& progress, std::string_view more) {
  const auto now = Clock::now();
  if (!streams_.err_is_terminal && now - last_log_ < std::chrono::seconds(10)) return;
  last_log_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double done = progress.bytes_total == 0 ? 1.0
                                                : static_cast<double>(progress.bytes_done) /
                                                      static_cast<double>(progress.bytes_total);
  const double rate = static_cast<double>(progress.bytes_done) / std::max(seconds, 1e-6);
  std::string text = fmt::format(
      "{:3.0f}%  {} of {}  {}/s", done * 100, format_bytes(progress.bytes_done),
      format_bytes(progress.bytes_total), format_bytes(static_cast<std::uint64_t>(rate)));
  if (done > 0 && done < 1)
    text += fmt::format("  {} left", time_text(seconds / done * (1 - done)));
  text += more;
  if (!streams_.err_is_terminal) {
    streams_.err << work_ << ": " << text << std::endl;
    return;
  }
  const auto filled = static_cast<std::size_t>(done * static_cast<double>(kBarWidth));
  std::string bar(kBarWidth, ' ');
  std::fill_n(bar.begin(), filled, '#');
  streams_.err << fmt::format("\r\x1b[K[{}] {}", bar, text) << std::flush;
  drawn_ = true;
}

void ProgressLine::note(std::string_view text) {
  finish();
  streams_.err << work_ << ": " << text << std::endl;
}

void ProgressLine::finish() {
  if (drawn_) streams_.err << std::endl;
  drawn_ = false;
}

}  // namespace shardkit::cli
