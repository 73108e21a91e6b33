// PeakMemory: how much memory the code between two points took at once.
#pragma once

#include <cstdint>

namespace shardkit::testing {

/// Counts what operator new gives out, on all threads, from its making on. One at a time. A program
/// that uses it gets an operator new that counts.
class PeakMemory {
 public:
  PeakMemory();
  /// The most bytes that were taken at once, beyond those taken before.
  std::int64_t bytes() const;

 private:
  std::int64_t before_;
};

}  // namespace shardkit::testing
