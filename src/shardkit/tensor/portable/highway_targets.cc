// The two functions of Highway's library that run-time dispatch calls, for a program without it.
//
// Highway's headers declare them (hwy/targets.h) and do the rest. cmake/portable.cmake alone uses
// this file; elsewhere the definitions are those of Highway's own library.
#include <hwy/targets.h>

namespace hwy {

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

// What hwy/detect_targets.h says a set demands, in the compiler's terms, which ask the operating
// system too: x86-64-v3 is AVX2, BMI, FMA and F16C, v4 adds AVX-512 F, BW, CD, DQ and VL. AVX3_DL
// is never named: conversions gain nothing by it.
int64_t SupportedTargets() {
  int64_t targets = HWY_STATIC_TARGET;
#if HWY_ARCH_X86_64
  __builtin_cpu_init();
  if (__builtin_cpu_supports("ssse3")) targets |= HWY_SSSE3;
  if (__builtin_cpu_supports("x86-64-v2") && __builtin_cpu_supports("aes") &&
      __builtin_cpu_supports("pclmul"))
    targets |= HWY_SSE4;
  if ((targets & HWY_SSE4) != 0 && __builtin_cpu_supports("x86-64-v3")) targets |= HWY_AVX2;
  if ((targets & HWY_AVX2) != 0 && __builtin_cpu_supports("x86-64-v4")) targets |= HWY_AVX3;
#endif
  return targets;
}

}  // namespace hwy
