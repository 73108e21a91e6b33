#include "shardkit/tensor/overflow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "shardkit/tensor/convert.h"

namespace shardkit {
namespace {

bool is_infinite_float16(std::uint16_t bits) { return (bits & 0x7fff) == 0x7c00; }

std::uint16_t bits_at(std::span<const std::byte> bytes, std::size_t element) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes.data() + element * sizeof bits, sizeof bits);
  return bits;
}

bool is_finite(DType type, std::span<const std::byte> element) {
  std::array<std::byte, sizeof(double)> wide{};
  convert(type, element, DType::kFloat64, wide);
  double value = 0;
  std::memcpy(&value, wide.data(), sizeof value);
  return std::isfinite(value);
}

}  // namespace

bool may_overflow_float16(DType from, DType to) {
  return to == DType::kFloat16 && from != DType::kFloat16;
}

bool may_hold_infinite_float16(std::span<const std::byte> bytes) {
  // Without a branch inside, so that compilers make vectors of it.
  unsigned found = 0;
  for (std::size_t i = 0; i < bytes.size() / 2; ++i)
    found |= is_infinite_float16(bits_at(bytes, i));
  return found != 0;
}

std::uint64_t count_float16_overflows(DType from, std::span<const std::byte> in,
                                      std::span<const std::byte> out) {
  if (!may_hold_infinite_float16(out)) return 0;
  const auto item = static_cast<std::size_t>(item_bytes(from));
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < out.size() / 2; ++i)
    count += is_infinite_float16(bits_at(out, i)) && is_finite(from, in.subspan(i * item, item));
  return count;
}

}  // namespace shardkit
