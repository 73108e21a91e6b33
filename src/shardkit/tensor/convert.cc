// convert: vector code for each kind of CPU, chosen at run time (Highway), and its composition.
#include "shardkit/tensor/convert.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "shardkit/tensor/convert.cc"
#include <hwy/foreach_target.h>  // compiles this file once for each target; must come first
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shardkit::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Bits32 = hn::ScalableTag<std::uint32_t>;
using Bits16 = hn::Rebind<std::uint16_t, Bits32>;

// Loads and stores bytes, so that nothing need be aligned.
template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const std::byte* from) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> lane;
  std::memcpy(&lane, from, sizeof(lane));
  return hn::Set(d, lane);
#else
  const hn::Repartition<std::uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from)));
#endif
}

template <class D>
HWY_INLINE void store([[maybe_unused]] D d, hn::VFromD<D> v, std::byte* to) {
#if HWY_TARGET == HWY_SCALAR
  const hn::TFromD<D> lane = hn::GetLane(v);
  std::memcpy(to, &lane, sizeof(lane));
#else
  const hn::Repartition<std::uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, reinterpret_cast<std::uint8_t*>(to));
#endif
}

using V32 = hn::VFromD<Bits32>;
using V16 = hn::VFromD<Bits16>;

template <class V>
HWY_INLINE auto is_nan(V magnitude) {  // of float32 bits without their sign
  const hn::RebindToSigned<Bits32> di;
  const Bits32 d;
  return hn::RebindMask(d, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7F800000)));
}

HWY_INLINE V16 low_halves(V32 bits) {  // every lane below 2^16
  const hn::RebindToSigned<Bits32> di;
  return hn::DemoteTo(Bits16(), hn::BitCast(di, bits));
}

// bfloat16 is the upper half of float32. Highway 1.0.3's own DemoteTo cuts the lower half off.
struct Float32ToBFloat16 {
  HWY_INLINE V16 operator()(V32 bits) const {
    const Bits32 d;
    const V32 upper = hn::ShiftRight<16>(bits);
    const V32 odd = hn::And(upper, hn::Set(d, 1));
    const V32 rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7FFF)), odd));
    const V32 quiet_nan = hn::Or(upper, hn::Set(d, 0x40));
    const V32 magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFF));
    return low_halves(hn::IfThenElse(is_nan(magnitude), quiet_nan, rounded));
  }
};

struct Float32ToFloat16 {
  HWY_INLINE V16 operator()(V32 bits) const {
    const Bits32 d;
    const hn::RebindToFloat<Bits32> df;
    const hn::RebindToSigned<Bits32> di;
    const V32 magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFF));
    const V32 sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
    const auto below = [&](std::int32_t limit) {
      return hn::RebindMask(d, hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, limit)));
    };
    // Normal: move the exponent's bias from 127 to 15 and round 13 bits away, ties to even.
    const V32 odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
    const V32 normal =
        hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, hn::Set(d, 0xC8000FFFU)), odd));
    // Subnormal: in the sum with 1/2 the last bit is worth 2^-24, as in the result; the addition
    // rounds.
    const auto half = hn::Set(df, 0.5F);
    const V32 subnormal =
        hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(df, magnitude), half)), hn::BitCast(d, half));
    const V32 quiet_nan =
        hn::Or(hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 0x3FF)), hn::Set(d, 0x7E00));
    V32 result = hn::IfThenElse(below(0x38800000), subnormal, normal);       // 2^-14
    result = hn::IfThenElse(below(0x477FF000), result, hn::Set(d, 0x7C00));  // 65520: infinity
    result = hn::IfThenElse(is_nan(magnitude), quiet_nan, result);
    return low_halves(hn::Or(result, sign));
  }
};

struct BFloat16ToFloat32 {
  HWY_INLINE V32 operator()(V16 half) const {
    const Bits32 d;
    const V32 bits = hn::ShiftLeft<16>(hn::PromoteTo(d, half));
    const V32 magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFF));
    return hn::IfThenElse(is_nan(magnitude), hn::Or(bits, hn::Set(d, 0x400000)), bits);
  }
};

struct Float16ToFloat32 {
  HWY_INLINE V32 operator()(V16 half) const {
    const Bits32 d;
    const hn::RebindToFloat<Bits32> df;
    const V32 wide = hn::PromoteTo(d, half);
    const V32 sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(d, 0x8000)));
    const V32 magnitude = hn::ShiftLeft<13>(hn::And(wide, hn::Set(d, 0x7FFF)));
    const V32 exponent = hn::And(magnitude, hn::Set(d, 0x0F800000));
    // Normal: move the exponent's bias from 15 to 127.
    const V32 normal = hn::Add(magnitude, hn::Set(d, 0x38000000));
    // Subnormal: as the fraction of a float32 with exponent 2^-14, less that 2^-14.
    const V32 smallest_normal = hn::Set(d, 0x38800000);
    const V32 subnormal =
        hn::BitCast(d, hn::Sub(hn::BitCast(df, hn::Add(magnitude, smallest_normal)),
                               hn::BitCast(df, smallest_normal)));
    const V32 special = hn::Or(magnitude, hn::Set(d, 0x7F800000));
    V32 result = hn::IfThenElse(hn::Eq(exponent, hn::Zero(d)), subnormal, normal);
    result = hn::IfThenElse(hn::Eq(exponent, hn::Set(d, 0x0F800000)), special, result);
    result = hn::IfThenElse(is_nan(result), hn::Or(result, hn::Set(d, 0x400000)), result);
    return hn::Or(result, sign);
  }
};

// Applies `cast` to `count` elements; the last few go through a full vector of their own.
template <class In, class Out, class Cast>
HWY_INLINE void for_each(In in_tag, Out out_tag, const Cast& cast, const std::byte* in,
                         std::byte* out, std::size_t count) {
  constexpr std::size_t kIn = sizeof(hn::TFromD<In>);
  constexpr std::size_t kOut = sizeof(hn::TFromD<Out>);
  const std::size_t lanes = hn::Lanes(Bits32());
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    store(out_tag, cast(load(in_tag, in + i * kIn)), out + i * kOut);
  if (i == count) return;
  std::byte tail_in[hn::MaxLanes(Bits32()) * kIn] = {};
  std::byte tail_out[hn::MaxLanes(Bits32()) * kOut];
  std::memcpy(tail_in, in + i * kIn, (count - i) * kIn);
  store(out_tag, cast(load(in_tag, tail_in)), tail_out);
  std::memcpy(out + i * kOut, tail_out, (count - i) * kOut);
}

void float32_to_bfloat16(const std::byte* in, std::byte* out, std::size_t count) {
  for_each(Bits32(), Bits16(), Float32ToBFloat16(), in, out, count);
}
void float32_to_float16(const std::byte* in, std::byte* out, std::size_t count) {
  for_each(Bits32(), Bits16(), Float32ToFloat16(), in, out, count);
}
void bfloat16_to_float32(const std::byte* in, std::byte* out, std::size_t count) {
  for_each(Bits16(), Bits32(), BFloat16ToFloat32(), in, out, count);
}
void float16_to_float32(const std::byte* in, std::byte* out, std::size_t count) {
  for_each(Bits16(), Bits32(), Float16ToFloat32(), in, out, count);
}

}  // namespace shardkit::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardkit {
namespace {

HWY_EXPORT(float32_to_bfloat16);
HWY_EXPORT(float32_to_float16);
HWY_EXPORT(bfloat16_to_float32);
HWY_EXPORT(float16_to_float32);

constexpr std::size_t kChunk = 1024;  // elements cast at a time where two steps are needed

std::size_t size_of(DType dtype) { return static_cast<std::size_t>(item_bytes(dtype)); }

// The compiler vectorizes this; float64 is rare in checkpoints.
template <class From, class To>
void cast_plain(const std::byte* in, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From from;
    std::memcpy(&from, in + i * sizeof(From), sizeof(From));
    const To to = static_cast<To>(from);
    std::memcpy(out + i * sizeof(To), &to, sizeof(To));
  }
}

void to_float32(DType from, const std::byte* in, std::byte* out, std::size_t count) {
  if (from == DType::kFloat64) return cast_plain<double, float>(in, out, count);
  if (from == DType::kFloat16) return HWY_DYNAMIC_DISPATCH(float16_to_float32)(in, out, count);
  HWY_DYNAMIC_DISPATCH(bfloat16_to_float32)(in, out, count);
}

void from_float32(DType to, const std::byte* in, std::byte* out, std::size_t count) {
  if (to == DType::kFloat64) return cast_plain<float, double>(in, out, count);
  if (to == DType::kFloat16) return HWY_DYNAMIC_DISPATCH(float32_to_float16)(in, out, count);
  HWY_DYNAMIC_DISPATCH(float32_to_bfloat16)(in, out, count);
}

}  // namespace

void convert(DType from, std::span<const std::byte> in, DType to, std::span<std::byte> out) {
  assert(is_castable_float(from) && is_castable_float(to));
  const std::size_t count = in.size() / size_of(from);
  assert(in.size() == count * size_of(from) && out.size() == count * size_of(to));
  if (from == to) {
    if (count > 0) std::memcpy(out.data(), in.data(), in.size());
  } else if (to == DType::kFloat32) {
    to_float32(from, in.data(), out.data(), count);
  } else if (from == DType::kFloat32) {
    from_float32(to, in.data(), out.data(), count);
  } else {
    std::byte middle[kChunk * sizeof(float)];
    for (std::size_t i = 0; i < count; i += kChunk) {
      const std::size_t part = std::min(kChunk, count - i);
      to_float32(from, in.data() + i * size_of(from), middle, part);
      from_float32(to, middle, out.data() + i * size_of(to), part);
    }
  }
}

}  // namespace shardkit
#endif  // HWY_ONCE
