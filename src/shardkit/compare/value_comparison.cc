#include "shardkit/compare/value_comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "shardkit/tensor/convert.h"

namespace shardkit {
namespace {

/// Elements whose values are in memory at once: small enough for the stack and the first cache.
constexpr std::size_t kChunk = 512;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ----- elements as double precision values

template <class T>
void load_as(const std::byte* from, std::size_t count, double* values) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

void load_half(DType dtype, const std::byte* from, std::size_t count, double* values) {
  std::array<std::byte, 2 * kChunk * sizeof(float)> wide;
  const std::size_t bytes = count * sizeof(float);
  convert(dtype, {from, count * 2}, DType::kFloat32, {wide.data(), bytes});
  load_as<float>(wide.data(), count, values);
}

/// The 8-bit floats (torch 2.13, c10/util/Float8_*.h).
struct SmallFloat {
  int mantissa_bits;
  int bias;
  bool unsigned_zero;  // "uz": 0x80 is the only NaN, and there is no infinity
  bool ieee;           // the highest exponent is infinity and NaN; else all ones alone are NaN
};

double small_float(const SmallFloat& format, unsigned bits) {
  const double sign = (bits & 0x80u) != 0 ? -1 : 1;
  if (format.unsigned_zero && bits == 0x80u) return std::nan("");
  const unsigned magnitude = bits & 0x7Fu;
  const auto mantissa = static_cast<int>(magnitude & ((1u << format.mantissa_bits) - 1));
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const int highest = (1 << (7 - format.mantissa_bits)) - 1;
  if (format.ieee && exponent == highest) return mantissa == 0 ? sign * kInfinity : std::nan("");
  if (!format.ieee && !format.unsigned_zero && magnitude == 0x7Fu) return std::nan("");
  const int hidden = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  return sign *
         std::ldexp(hidden + mantissa, std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

double byte_value(DType dtype, unsigned bits) {
  switch (dtype) {
    case DType::kFloat8E4M3FN: return small_float({3, 7, false, false}, bits);
    case DType::kFloat8E4M3FNUZ: return small_float({3, 8, true, false}, bits);
    case DType::kFloat8E5M2: return small_float({2, 15, false, true}, bits);
    case DType::kFloat8E5M2FNUZ: return small_float({2, 16, true, false}, bits);
    default:  // kFloat8E8M0FNU: a power of two
      return bits == 0xFFu ? std::nan("") : std::ldexp(1, static_cast<int>(bits) - 127);
  }
}

using ByteValues = std::array<double, 256>;

ByteValues values_of_bytes(DType dtype) {
  ByteValues table;
  for (unsigned bits = 0; bits < table.size(); ++bits) table[bits] = byte_value(dtype, bits);
  return table;
}

const ByteValues& byte_values(DType dtype) {
  static const std::array<ByteValues, 5> tables = {
      values_of_bytes(DType::kFloat8E4M3FN), values_of_bytes(DType::kFloat8E4M3FNUZ),
      values_of_bytes(DType::kFloat8E5M2), values_of_bytes(DType::kFloat8E5M2FNUZ),
      values_of_bytes(DType::kFloat8E8M0FNU)};
  return tables[static_cast<std::size_t>(dtype) - static_cast<std::size_t>(DType::kFloat8E4M3FN)];
}

void load_bytes(DType dtype, const std::byte* from, std::size_t count, double* values) {
  const ByteValues& table = byte_values(dtype);
  for (std::size_t i = 0; i < count; ++i) values[i] = table[static_cast<std::uint8_t>(from[i])];
}

/// Two numbers a byte, the low half first (OCP MX 1.0, E2M1).
void load_float4(const std::byte* from, std::size_t count, double* values) {
  static constexpr std::array<double, 8> kMagnitudes = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const unsigned bits = (static_cast<unsigned>(from[i / 2]) >> (i % 2 * 4)) & 0xFu;
    values[i] = (bits & 8u) != 0 ? -kMagnitudes[bits & 7u] : kMagnitudes[bits & 7u];
  }
}

/// Numbers in an element: 2 in complex ones and in float4.
std::size_t numbers_in(DType dtype) {
  switch (dtype) {
    case DType::kComplex128:
    case DType::kComplex64:
    case DType::kComplex32:
    case DType::kFloat4E2M1FNx2: return 2;
    default: return 1;
  }
}

/// numbers_in(dtype) values for each element; 64-bit integers are rounded.
void load(DType dtype, const std::byte* from, std::size_t count, double* values) {
  switch (dtype) {
    case DType::kFloat64: return load_as<double>(from, count, values);
    case DType::kFloat32: return load_as<float>(from, count, values);
    case DType::kFloat16:
    case DType::kBFloat16: return load_half(dtype, from, count, values);
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0FNU: return load_bytes(dtype, from, count, values);
    case DType::kFloat4E2M1FNx2: return load_float4(from, count, values);
    case DType::kComplex128: return load_as<double>(from, 2 * count, values);
    case DType::kComplex64: return load_as<float>(from, 2 * count, values);
    case DType::kComplex32: return load_half(DType::kFloat16, from, 2 * count, values);
    case DType::kInt64: return load_as<std::int64_t>(from, count, values);
    case DType::kInt32: return load_as<std::int32_t>(from, count, values);
    case DType::kInt16: return load_as<std::int16_t>(from, count, values);
    case DType::kInt8: return load_as<std::int8_t>(from, count, values);
    case DType::kUInt64: return load_as<std::uint64_t>(from, count, values);
    case DType::kUInt32: return load_as<std::uint32_t>(from, count, values);
    case DType::kUInt16: return load_as<std::uint16_t>(from, count, values);
    case DType::kUInt8:
    case DType::kBool: return load_as<std::uint8_t>(from, count, values);
  }
}

// ----- errors

/// |second - first|; infinity where it is no number.
double error_of(double first, double second) {
  if (first == second) return 0;
  const double error = std::fabs(second - first);
  return std::isfinite(error) ? error : kInfinity;
}

/// The same of 64-bit integers, which values in double precision do not tell apart.
template <class T>
double integer_error(const std::byte* first, const std::byte* second) {
  T a, b;
  std::memcpy(&a, first, sizeof(T));
  std::memcpy(&b, second, sizeof(T));
  const auto low = static_cast<std::uint64_t>(std::min(a, b));
  return static_cast<double>(static_cast<std::uint64_t>(std::max(a, b)) - low);
}

bool is_complex(DType dtype) {
  return dtype == DType::kComplex128 || dtype == DType::kComplex64 || dtype == DType::kComplex32;
}

/// Some elements of both runs, as bytes and as values.
struct Chunk {
  DType dtype;
  std::size_t item;
  std::size_t numbers;
  const std::byte* bytes[2];
  std::array<double, 2 * kChunk> values[2];

  /// |second - first| of an element; 0 only if both are equal.
  double error(std::size_t i) const {
    if (dtype == DType::kInt64) return integer_error<std::int64_t>(bytes_of(0, i), bytes_of(1, i));
    if (dtype == DType::kUInt64)
      return integer_error<std::uint64_t>(bytes_of(0, i), bytes_of(1, i));
    const double* a = values_of(0, i);
    const double* b = values_of(1, i);
    if (numbers == 1) return error_of(a[0], b[0]);
    const double errors[2] = {error_of(a[0], b[0]), error_of(a[1], b[1])};
    return is_complex(dtype) ? std::hypot(errors[0], errors[1]) : std::max(errors[0], errors[1]);
  }

  bool is_near(std::size_t i, double error, const Tolerance& tolerance) const {
    if (error == 0) return true;
    // An infinite error would meet an infinite bound.
    if (error == kInfinity || !(is_floating_point(dtype) || is_complex(dtype))) return false;
    const auto bound = [&](double value) {
      return tolerance.absolute + tolerance.relative * std::fabs(value);
    };
    const double* a = values_of(0, i);
    const double* b = values_of(1, i);
    if (numbers == 1) return error <= bound(a[0]);
    if (is_complex(dtype)) return error <= bound(std::hypot(a[0], a[1]));
    return error_of(a[0], b[0]) <= bound(a[0]) && error_of(a[1], b[1]) <= bound(a[1]);
  }

  bool has_same_bits(std::size_t i) const {
    return std::memcmp(bytes_of(0, i), bytes_of(1, i), item) == 0;
  }

  const std::byte* bytes_of(int side, std::size_t i) const { return bytes[side] + i * item; }
  const double* values_of(int side, std::size_t i) const {
    return values[side].data() + i * numbers;
  }
};

/// Sets what is told of the first element that differs. @param position of the chunk's first
void set_first(const Chunk& chunk, std::size_t i, std::int64_t position,
               ValueDifferences& differences) {
  differences.first_position = position + static_cast<std::int64_t>(i);
  for (int side = 0; side < 2; ++side) differences.first_values[side] = chunk.values_of(side, i)[0];
}

ValueDifferences compare_each(const Chunk& chunk, std::size_t count,
                              const std::optional<Tolerance>& tolerance, std::int64_t position) {
  ValueDifferences result;
  for (std::size_t i = 0; i < count; ++i) {
    const double error = chunk.error(i);
    if (tolerance ? chunk.is_near(i, error, *tolerance) : chunk.has_same_bits(i)) continue;
    if (result.count == 0) set_first(chunk, i, position, result);
    result.count += 1;
    result.largest_error = std::max(result.largest_error, error);
  }
  return result;
}

/// The same of real floats without branches: two different models differ in every element.
ValueDifferences compare_reals(const Chunk& chunk, std::size_t count, const Tolerance& tolerance,
                               std::int64_t position) {
  ValueDifferences result;
  const double* a = chunk.values_of(0, 0);
  const double* b = chunk.values_of(1, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const double error = std::fabs(b[i] - a[i]);
    const double bound = tolerance.absolute + tolerance.relative * std::fabs(a[i]);
    const bool near = (a[i] == b[i]) | ((error < kInfinity) & (error <= bound));
    const double counted = near ? 0 : (error < kInfinity ? error : kInfinity);
    result.count += near ? 0 : 1;
    result.largest_error = counted > result.largest_error ? counted : result.largest_error;
  }
  if (result.count == 0) return result;
  std::size_t first = 0;
  while (chunk.is_near(first, chunk.error(first), tolerance)) ++first;
  set_first(chunk, first, position, result);
  return result;
}

template <class Bits>
bool holds_bits_above(std::span<const std::byte> run, Bits magnitude_mask, Bits limit) {
  Bits any = 0;
  for (std::size_t i = 0; i < run.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, run.data() + i, sizeof(Bits));
    any = static_cast<Bits>(any | static_cast<Bits>((bits & magnitude_mask) > limit));
  }
  return any != 0;
}

/// Whether a run of elements may hold a NaN; false for certain if not.
bool may_hold_nan(DType dtype, std::span<const std::byte> run) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128:
      return holds_bits_above<std::int64_t>(run, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000);
    case DType::kFloat32:
    case DType::kComplex64: return holds_bits_above<std::int32_t>(run, 0x7FFFFFFF, 0x7F800000);
    case DType::kFloat16:
    case DType::kComplex32: return holds_bits_above<std::int16_t>(run, 0x7FFF, 0x7C00);
    case DType::kBFloat16: return holds_bits_above<std::int16_t>(run, 0x7FFF, 0x7F80);
    case DType::kFloat4E2M1FNx2: return false;
    default: return is_floating_point(dtype);
  }
}

}  // namespace

void ValueDifferences::add(const ValueDifferences& other) {
  if (other.count == 0) return;
  if (count == 0 || other.first_position < first_position) {
    first_position = other.first_position;
    std::copy_n(other.first_values, 2, first_values);
  }
  count += other.count;
  largest_error = std::max(largest_error, other.largest_error);
}

ValueDifferences compare_values(DType dtype, std::span<const std::byte> first,
                                std::span<const std::byte> second,
                                const std::optional<Tolerance>& tolerance, std::int64_t position) {
  Chunk chunk{dtype, static_cast<std::size_t>(item_bytes(dtype)), numbers_in(dtype), {}, {}};
  ValueDifferences result;
  const std::size_t step = kChunk * chunk.item;
  for (std::size_t at = 0; at < first.size(); at += step) {
    const std::size_t bytes = std::min(step, first.size() - at);
    chunk.bytes[0] = first.data() + at;
    chunk.bytes[1] = second.data() + at;
    const bool equal = std::memcmp(chunk.bytes[0], chunk.bytes[1], bytes) == 0;
    if (equal && !(tolerance && may_hold_nan(dtype, first.subspan(at, bytes)))) continue;
    const std::size_t count = bytes / chunk.item;
    for (int side = 0; side < 2; ++side)
      load(dtype, chunk.bytes[side], count, chunk.values[side].data());
    const std::int64_t here = position + static_cast<std::int64_t>(at / chunk.item);
    result.add(tolerance && chunk.numbers == 1 && is_floating_point(dtype)
                   ? compare_reals(chunk, count, *tolerance, here)
                   : compare_each(chunk, count, tolerance, here));
  }
  return result;
}

}  // namespace shardkit
