// Alarm: sleeps until the first of the armed times.
#include "shardkit/collective/gloo/alarm_internal.h"

namespace shardkit {

Alarm::Key Alarm::arm(TimePoint time, std::function<void()> ring) {
  const std::lock_guard lock(mutex_);
  const Key key{time, ++count_};
  armed_.emplace(key, std::move(ring));
  // Most waits end long before their time, and the next one's is later: the thread sleeps on.
  if (time < wakes_at_) changed_.notify_all();
  return key;
}

void Alarm::disarm(const Key& key) {
  const std::lock_guard lock(mutex_);
  armed_.erase(key);
}

void Alarm::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const TimePoint now = std::chrono::steady_clock::now();
    while (!armed_.empty() && armed_.begin()->first.first <= now) {
      armed_.begin()->second();
      armed_.erase(armed_.begin());
    }
    wakes_at_ = armed_.empty() ? TimePoint::max() : armed_.begin()->first.first;
    const auto earlier = [this] {
      return !armed_.empty() && armed_.begin()->first.first < wakes_at_;
    };
    if (armed_.empty())
      changed_.wait(lock, stop, earlier);
    else
      changed_.wait_until(lock, stop, wakes_at_, earlier);
  }
}

}  // namespace shardkit
