// The malloc() that counts.
#include "shardkit/testing/peak_memory.h"

#include <atomic>
#include <cstddef>

namespace {

std::atomic<std::int64_t> taken = 0;
std::atomic<std::int64_t> peak = 0;
std::atomic<std::int64_t> allocations_so_far = 0;

}  // namespace

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SHARDKIT_COUNTS_MEMORY 1
#include <malloc.h>

#include <cerrno>

namespace {

void* counted(void* memory) {
  if (!memory) return nullptr;
  ++allocations_so_far;
  const std::int64_t now = taken += static_cast<std::int64_t>(malloc_usable_size(memory));
  std::int64_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return memory;
}

void discount(void* memory) {
  if (memory) taken -= static_cast<std::int64_t>(malloc_usable_size(memory));
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t bytes) noexcept;
void* __libc_calloc(std::size_t count, std::size_t bytes) noexcept;
void* __libc_realloc(void* memory, std::size_t bytes) noexcept;
void* __libc_memalign(std::size_t alignment, std::size_t bytes) noexcept;
void __libc_free(void* memory) noexcept;

void* malloc(std::size_t bytes) noexcept { return counted(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return counted(__libc_calloc(count, bytes));
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  discount(memory);
  return counted(__libc_realloc(memory, bytes));
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return counted(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  *memory = memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}
void free(void* memory) noexcept {
  discount(memory);
  __libc_free(memory);
}
}
#endif

namespace shardkit::testing {

#ifdef SHARDKIT_COUNTS_MEMORY
bool PeakMemory::counts() { return true; }
#else
bool PeakMemory::counts() { return false; }
#endif

void PeakMemory::restart() {
  allocations_before_ = allocations_so_far;
  bytes_before_ = taken;
  peak = bytes_before_;
}
std::int64_t PeakMemory::bytes() const { return peak - bytes_before_; }
std::int64_t PeakMemory::allocations() const { return allocations_so_far - allocations_before_; }

}  // namespace shardkit::testing
