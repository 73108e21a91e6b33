// XXH3 for processors with AVX2: this file, and no other, is compiled with -mavx2.
#if defined(__x86_64__)

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shardkit {

XXH64_hash_t xxh3_avx2(const void* input, std::size_t size) { return XXH3_64bits(input, size); }

XXH_errorcode xxh3_update_avx2(XXH3_state_t* state, const void* input, std::size_t size) {
  return XXH3_64bits_update(state, input, size);
}

}  // namespace shardkit

#endif
