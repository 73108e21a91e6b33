// accumulate: typed loops over blocks that stay in the cache.
#include "shardkit/tensor/accumulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "shardkit/tensor/convert.h"

namespace shardkit {
namespace {

constexpr std::size_t kBlock = 1024;  // elements

// Widening a product or sum to uint64 and cutting it back is wraparound in every integer type.
template <class T>
T reduce(Accumulation op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const auto wide_a = static_cast<std::uint64_t>(a);
    const auto wide_b = static_cast<std::uint64_t>(b);
    switch (op) {
      case Accumulation::kSum:
      case Accumulation::kAvg: return static_cast<T>(wide_a + wide_b);
      case Accumulation::kProduct: return static_cast<T>(wide_a * wide_b);
      case Accumulation::kMin: return std::min(a, b);
      case Accumulation::kMax: return std::max(a, b);
    }
  } else {
    switch (op) {
      case Accumulation::kSum:
      case Accumulation::kAvg: return a + b;
      case Accumulation::kProduct: return a * b;
      // Written so that a NaN on either side is kept.
      case Accumulation::kMin: return a != a || a <= b ? a : b;
      case Accumulation::kMax: return a != a || a >= b ? a : b;
    }
  }
  return a;
}

template <class T, class Fn>
void in_blocks(std::span<std::byte> accumulator, const Fn& fn) {
  T block[kBlock];
  const std::size_t count = accumulator.size() / sizeof(T);
  for (std::size_t i = 0; i < count; i += kBlock) {
    const std::size_t part = std::min(kBlock, count - i);
    std::byte* const place = accumulator.data() + i * sizeof(T);
    std::memcpy(block, place, part * sizeof(T));
    fn(i, std::span<T>(block, part));
    std::memcpy(place, block, part * sizeof(T));
  }
}

template <class T>
void accumulate_as(Accumulation op, DType dtype, DType wide, std::span<const std::byte> in,
                   std::span<std::byte> accumulator) {
  const auto item = static_cast<std::size_t>(item_bytes(dtype));
  const auto loop = [&](auto fixed_op) {
    in_blocks<T>(accumulator, [&](std::size_t first, std::span<T> block) {
      T addend[kBlock];
      const auto source = in.subspan(first * item, block.size() * item);
      const auto target = std::as_writable_bytes(std::span<T>(addend, block.size()));
      if (dtype == wide)
        std::memcpy(target.data(), source.data(), target.size());
      else
        convert(dtype, source, wide, target);
      for (std::size_t i = 0; i < block.size(); ++i)
        block[i] = reduce<T>(fixed_op(), block[i], addend[i]);
    });
  };
  // The operation is a constant in each loop, so that the compiler can vectorize it.
  using enum Accumulation;
  switch (op) {
    case kSum:
    case kAvg: return loop(std::integral_constant<Accumulation, kSum>());
    case kMin: return loop(std::integral_constant<Accumulation, kMin>());
    case kMax: return loop(std::integral_constant<Accumulation, kMax>());
    case kProduct: return loop(std::integral_constant<Accumulation, kProduct>());
  }
}

template <class T>
void divide_as(std::int64_t count, std::span<std::byte> accumulator) {
  in_blocks<T>(accumulator, [divisor = static_cast<T>(count)](std::size_t, std::span<T> block) {
    for (T& value : block) value /= divisor;
  });
}

// Calls fn<T>() for the accumulator type T of `wide`.
template <class Fn>
void with_type(DType wide, const Fn& fn) {
  switch (wide) {
    case DType::kFloat64: return fn.template operator()<double>();
    case DType::kFloat32: return fn.template operator()<float>();
    case DType::kInt64: return fn.template operator()<std::int64_t>();
    case DType::kInt32: return fn.template operator()<std::int32_t>();
    case DType::kInt16: return fn.template operator()<std::int16_t>();
    case DType::kInt8: return fn.template operator()<std::int8_t>();
    case DType::kUInt64: return fn.template operator()<std::uint64_t>();
    case DType::kUInt32: return fn.template operator()<std::uint32_t>();
    case DType::kUInt16: return fn.template operator()<std::uint16_t>();
    case DType::kUInt8: return fn.template operator()<std::uint8_t>();
    default: assert(false && "no accumulator type");
  }
}

DType wide_of(DType dtype) {
  return is_integer(dtype) || dtype == DType::kFloat64 ? dtype : DType::kFloat32;
}

void copy_or_convert(DType from, std::span<const std::byte> in, DType to,
                     std::span<std::byte> out) {
  if (from != to) return convert(from, in, to, out);
  if (!in.empty()) std::memcpy(out.data(), in.data(), in.size());
}

}  // namespace

Result<DType> accumulator_dtype(Accumulation op, DType dtype) {
  if (!is_integer(dtype) && !is_castable_float(dtype))
    return Error(ErrorCode::kUnsupported,
                 fmt::format("Partial tensors of {} cannot be reduced", torch_name(dtype)));
  if (is_integer(dtype) && op == Accumulation::kAvg)
    return Error(
        ErrorCode::kUnsupported,
        fmt::format("{} tensors have no average, which Partial(avg) asks for", torch_name(dtype)));
  return wide_of(dtype);
}

void begin_accumulation(DType dtype, std::span<const std::byte> in,
                        std::span<std::byte> accumulator) {
  copy_or_convert(dtype, in, wide_of(dtype), accumulator);
}

void accumulate(Accumulation op, DType dtype, std::span<const std::byte> in,
                std::span<std::byte> accumulator) {
  const DType wide = wide_of(dtype);
  with_type(wide, [&]<class T>() { accumulate_as<T>(op, dtype, wide, in, accumulator); });
}

void divide_accumulator(DType dtype, std::int64_t count, std::span<std::byte> accumulator) {
  assert(!is_integer(dtype) && count >= 1);
  if (wide_of(dtype) == DType::kFloat64) return divide_as<double>(count, accumulator);
  divide_as<float>(count, accumulator);
}

void round_accumulator(DType dtype, std::span<const std::byte> accumulator,
                       std::span<std::byte> out) {
  copy_or_convert(wide_of(dtype), accumulator, dtype, out);
}

}  // namespace shardkit
