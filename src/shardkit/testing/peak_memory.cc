// The operator new that counts.
#include "shardkit/testing/peak_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> taken = 0;
std::atomic<std::int64_t> peak = 0;

void* counted(std::size_t bytes) noexcept {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (!memory) return nullptr;
  const std::int64_t now = taken += static_cast<std::int64_t>(malloc_usable_size(memory));
  std::int64_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return memory;
}

}  // namespace

// The array forms call these.
void* operator new(std::size_t bytes) {
  if (void* memory = counted(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept {
  if (!memory) return;
  taken -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace shardkit::testing {

PeakMemory::PeakMemory() : before_(taken) { peak = before_; }
std::int64_t PeakMemory::bytes() const { return peak - before_; }

}  // namespace shardkit::testing
