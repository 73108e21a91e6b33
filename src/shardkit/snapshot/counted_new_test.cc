// The test program's operator new, which counts. Apart from the tests, where it would be inlined.
#include "shardkit/snapshot/counted_new_test_util.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> news = 0;
}  // namespace

namespace shardkit::testing {
long news_so_far() { return news; }
}  // namespace shardkit::testing

void* operator new(std::size_t bytes) {
  ++news;
  if (void* data = std::malloc(bytes > 0 ? bytes : 1)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
