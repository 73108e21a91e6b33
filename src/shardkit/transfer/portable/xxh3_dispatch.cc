// The XXH3 functions that Debian has in xxHash's shared library only.
//
// Chooses between two compilations of the code in xxhash.h; cmake/portable.cmake alone uses this.
#if defined(__x86_64__)

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shardkit {

XXH64_hash_t xxh3_avx2(const void* input, std::size_t size);  // xxh3_avx2.cc
XXH_errorcode xxh3_update_avx2(XXH3_state_t* state, const void* input, std::size_t size);

namespace {

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

}  // namespace
}  // namespace shardkit

extern "C" {

XXH64_hash_t XXH3_64bits_dispatch(const void* input, std::size_t size) {
  return shardkit::has_avx2() ? shardkit::xxh3_avx2(input, size) : XXH3_64bits(input, size);
}

XXH_errorcode XXH3_64bits_update_dispatch(XXH3_state_t* state, const void* input,
                                          std::size_t size) {
  return shardkit::has_avx2() ? shardkit::xxh3_update_avx2(state, input, size)
                              : XXH3_64bits_update(state, input, size);
}

// xxhash.h renames its own functions here, so these get their names from the assembler.
XXH_errorcode reset(XXH3_state_t* state) asm("XXH3_64bits_reset");
XXH_errorcode reset(XXH3_state_t* state) { return XXH3_64bits_reset(state); }

XXH64_hash_t digest(const XXH3_state_t* state) asm("XXH3_64bits_digest");
XXH64_hash_t digest(const XXH3_state_t* state) { return XXH3_64bits_digest(state); }

}  // extern "C"

#endif
