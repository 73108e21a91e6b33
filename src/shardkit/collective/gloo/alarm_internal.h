// Alarm: calls a function at a point in time unless it is disarmed before.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace shardkit {

/// One thread for any number of armed functions. All functions are for any thread.
class Alarm {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Key = std::pair<TimePoint, std::uint64_t>;

  Alarm() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  /// Arranges a call of `ring`, once, at `time` or soon after it. It must not block.
  Key arm(TimePoint time, std::function<void()> ring);

  /// The function is not running when this returns, and will not be called.
  void disarm(const Key& key);

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<Key, std::function<void()>> armed_;
  TimePoint wakes_at_ = TimePoint::max();  // until when the thread sleeps
  std::uint64_t count_ = 0;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace shardkit
