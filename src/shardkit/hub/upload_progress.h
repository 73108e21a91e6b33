// UploadProgress: how far an upload has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

namespace shardkit::hub {

struct UploadProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;  ///< falls when a file turns out to be there already
  std::uint64_t files_done = 0;   ///< sent, or there already
  std::uint64_t files_total = 0;
};

/// Counts on all threads, and tells one call at a time, at most ten times a second.
class ProgressCounter {
 public:
  explicit ProgressCounter(std::function<void(const UploadProgress&)> on_progress)
      : on_progress_(std::move(on_progress)) {}

  /// Changes the counts and tells. `change` gets an UploadProgress&.
  template <class F>
  void update(F change) {
    const std::lock_guard lock(mutex_);
    change(progress_);
    const auto now = std::chrono::steady_clock::now();
    if (!on_progress_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    on_progress_(progress_);
  }
  /// Tells whatever the time.
  void tell() {
    const std::lock_guard lock(mutex_);
    if (on_progress_) on_progress_(progress_);
  }

 private:
  std::function<void(const UploadProgress&)> on_progress_;
  std::mutex mutex_;
  UploadProgress progress_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace shardkit::hub
