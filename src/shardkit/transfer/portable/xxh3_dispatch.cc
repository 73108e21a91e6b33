// XXH3_64bits_dispatch(), which Debian has in xxHash's shared library only.
//
// Chooses between two compilations of the code in xxhash.h; cmake/portable.cmake alone uses this.
#if defined(__x86_64__)

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shardkit {

XXH64_hash_t xxh3_avx2(const void* input, std::size_t size);  // xxh3_avx2.cc

}  // namespace shardkit

extern "C" XXH64_hash_t XXH3_64bits_dispatch(const void* input, std::size_t size) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? shardkit::xxh3_avx2(input, size) : XXH3_64bits(input, size);
}

#endif
