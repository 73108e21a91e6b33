// PeakMemory: how much memory the code after a point took at once, and how often it asked for some.
#pragma once

#include <cstdint>

namespace shardkit::testing {

/// Counts what malloc() and its kin, and so operator new, give out, on all threads, from its making
/// or the last restart() on. One at a time: a program that uses it gets a malloc() that counts.
class PeakMemory {
 public:
  /// False under sanitizers, which have a malloc() of their own, and with other C libraries than
  /// glibc. All counts are 0 then.
  static bool counts();

  PeakMemory() { restart(); }
  void restart();

  /// The most bytes that were taken at once, beyond those taken before.
  std::int64_t bytes() const;
  /// How often memory was asked for.
  std::int64_t allocations() const;

 private:
  std::int64_t bytes_before_ = 0;
  std::int64_t allocations_before_ = 0;
};

}  // namespace shardkit::testing
