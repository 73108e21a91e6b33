// convert: every 16-bit input and every rounding boundary, against arithmetic in double; and values
// that PyTorch 2.13's Tensor.to() gave.
#include "shardkit/tensor/convert.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace shardkit {
namespace {

// A binary format, from IEEE 754: the reference knows nothing but these numbers.
struct Format {
  int fraction_bits;
  int smallest_exponent;
  int largest_exponent;
};
constexpr Format kHalf{10, -14, 15};
constexpr Format kBrain{7, -126, 127};
constexpr Format kSingle{23, -126, 127};

// The value of the format's number nearest to x, ties to an even last digit.
double nearest(double x, Format format) {
  if (x == 0 || std::isinf(x) || std::isnan(x)) return x;
  const int exponent = std::max(std::ilogb(x), format.smallest_exponent);
  const double unit = std::ldexp(1.0, exponent - format.fraction_bits);
  const double rounded = std::nearbyint(x / unit) * unit;
  const double limit = std::ldexp(1.0, format.largest_exponent + 1);
  if (std::abs(rounded) >= limit) return std::copysign(INFINITY, x);
  return std::copysign(rounded, x);
}

// The value of a number's digits.
double value_of(std::uint32_t bits, Format format) {
  const int exponent_bits = format.largest_exponent == 15 ? 5 : 8;
  const std::uint32_t fraction = bits & ((1U << format.fraction_bits) - 1);
  const int exponent =
      static_cast<int>((bits >> format.fraction_bits) & ((1U << exponent_bits) - 1));
  const double sign = (bits >> (format.fraction_bits + exponent_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  const double digits = fraction + (exponent > 0 ? std::ldexp(1.0, format.fraction_bits) : 0.0);
  const int power = std::max(exponent, 1) - 1 + format.smallest_exponent - format.fraction_bits;
  return sign * std::ldexp(digits, power);
}

template <class To, class From>
std::vector<To> cast(DType from, DType to, const std::vector<From>& in) {
  std::vector<To> out(in.size());
  convert(from, std::as_bytes(std::span(in)), to, std::as_writable_bytes(std::span(out)));
  return out;
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

std::vector<std::uint16_t> every_16_bits() {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  return all;
}

// All upper halves with the lower halves at which bfloat16 rounding turns, all upper 19 bits with
// those at which float16 rounding turns, and the midpoints of float16's subnormals.
std::vector<float> boundaries_of_float32() {
  std::vector<float> values;
  const auto add_bits = [&](std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(value);
  };
  for (std::uint32_t upper = 0; upper < 65536; ++upper)
    for (const std::uint32_t lower :
         {0x0000U, 0x0001U, 0x1234U, 0x7FFEU, 0x7FFFU, 0x8000U, 0x8001U, 0xABCDU, 0xFFFFU})
      add_bits(upper << 16 | lower);
  for (std::uint32_t upper = 0; upper < (1U << 19); ++upper)
    for (const std::uint32_t lower : {0x0FFFU, 0x1000U, 0x1001U}) add_bits(upper << 13 | lower);
  for (int k = 0; k <= 1024; ++k) {
    const float midpoint = std::ldexp(static_cast<float>(k) + 0.5F, -24);
    for (const float sign : {1.0F, -1.0F})
      for (const float value :
           {std::nextafter(midpoint, 0.0F), midpoint, std::nextafter(midpoint, 1.0F)})
        values.push_back(sign * value);
  }
  return values;
}

TEST(Convert, Every16BitValueWidensExactly) {
  const auto bits = every_16_bits();
  const auto half32 = cast<float>(DType::kFloat16, DType::kFloat32, bits);
  const auto half64 = cast<double>(DType::kFloat16, DType::kFloat64, bits);
  const auto brain32 = cast<float>(DType::kBFloat16, DType::kFloat32, bits);
  const auto brain64 = cast<double>(DType::kBFloat16, DType::kFloat64, bits);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const double half = value_of(bits[i], kHalf);
    const double brain = value_of(bits[i], kBrain);
    ASSERT_TRUE(same(half, half32[i]) && same(half, half64[i])) << i;
    ASSERT_TRUE(same(brain, brain32[i]) && same(brain, brain64[i])) << i;
  }
}

TEST(Convert, Every16BitValueComesBack) {
  const auto bits = every_16_bits();
  for (const auto& [type, format] :
       {std::pair(DType::kFloat16, kHalf), std::pair(DType::kBFloat16, kBrain)}) {
    const auto through32 =
        cast<std::uint16_t>(DType::kFloat32, type, cast<float>(type, DType::kFloat32, bits));
    const auto through64 =
        cast<std::uint16_t>(DType::kFloat64, type, cast<double>(type, DType::kFloat64, bits));
    const std::uint32_t quiet = 1U << (format.fraction_bits - 1);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      // A NaN keeps sign and payload, and is quiet.
      const std::uint32_t expected = bits[i] | (std::isnan(value_of(bits[i], format)) ? quiet : 0U);
      ASSERT_EQ(through32[i], expected) << i;
      ASSERT_EQ(through64[i], expected) << i;
    }
  }
}

TEST(Convert, SixteenBitTypesConvertIntoEachOther) {
  const auto bits = every_16_bits();
  const auto to_brain = cast<std::uint16_t>(DType::kFloat16, DType::kBFloat16, bits);
  const auto to_half = cast<std::uint16_t>(DType::kBFloat16, DType::kFloat16, bits);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ASSERT_TRUE(same(nearest(value_of(bits[i], kHalf), kBrain), value_of(to_brain[i], kBrain)))
        << i;
    ASSERT_TRUE(same(nearest(value_of(bits[i], kBrain), kHalf), value_of(to_half[i], kHalf))) << i;
  }
}

void check_every_boundary() {
  const auto values = boundaries_of_float32();
  const auto half = cast<std::uint16_t>(DType::kFloat32, DType::kFloat16, values);
  const auto brain = cast<std::uint16_t>(DType::kFloat32, DType::kBFloat16, values);
  const auto wide = cast<double>(DType::kFloat32, DType::kFloat64, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    ASSERT_TRUE(same(value, wide[i])) << value;
    ASSERT_TRUE(same(nearest(value, kHalf), value_of(half[i], kHalf))) << std::hexfloat << value;
    ASSERT_TRUE(same(nearest(value, kBrain), value_of(brain[i], kBrain))) << std::hexfloat << value;
    if (std::isnan(value)) {
      const bool negative = std::signbit(value);
      ASSERT_EQ(half[i] & 0xFE00U, negative ? 0xFE00U : 0x7E00U);
      ASSERT_EQ(brain[i] & 0xFFC0U, negative ? 0xFFC0U : 0x7FC0U);
    }
  }
}

TEST(Convert, Float32RoundsToNearestEvenAtEveryBoundary) { check_every_boundary(); }

// Runs the test on every kind of vector unit that this machine has, plain code included.
TEST(Convert, EveryInstructionSetGivesTheSame) {
  const auto halves = every_16_bits();
  const auto half32 = cast<std::uint32_t>(DType::kFloat16, DType::kFloat32, halves);
  const auto brain32 = cast<std::uint32_t>(DType::kBFloat16, DType::kFloat32, halves);
  int targets = 0;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    check_every_boundary();
    EXPECT_EQ(cast<std::uint32_t>(DType::kFloat16, DType::kFloat32, halves), half32);
    EXPECT_EQ(cast<std::uint32_t>(DType::kBFloat16, DType::kFloat32, halves), brain32);
    ++targets;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GE(targets, 1);
}

TEST(Convert, Float64GoesThroughFloat32) {
  std::vector<double> values;
  for (const float value : boundaries_of_float32())
    for (const double nudge : {0.0, 1.0, -1.0}) {  // one unit in the last place of a double
      if (std::isnan(value) || values.size() > 3'000'000) continue;
      const double wide = value;
      values.push_back(nudge == 0 ? wide : std::nextafter(wide, nudge * INFINITY));
    }
  const double largest = std::numeric_limits<float>::max();
  for (const double value : {largest + std::ldexp(1.0, 102), largest + std::ldexp(1.0, 103), 1e300,
                             5e-324, std::ldexp(1.0, -150), std::ldexp(1.5, -150)}) {
    values.push_back(value);
    values.push_back(-value);
  }
  const auto single = cast<float>(DType::kFloat64, DType::kFloat32, values);
  const auto half = cast<std::uint16_t>(DType::kFloat64, DType::kFloat16, values);
  const auto brain = cast<std::uint16_t>(DType::kFloat64, DType::kBFloat16, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double once = nearest(values[i], kSingle);
    ASSERT_TRUE(same(once, single[i])) << std::hexfloat << values[i];
    ASSERT_TRUE(same(nearest(once, kHalf), value_of(half[i], kHalf))) << std::hexfloat << values[i];
    ASSERT_TRUE(same(nearest(once, kBrain), value_of(brain[i], kBrain)))
        << std::hexfloat << values[i];
  }
}

TEST(Convert, GivesWhatPyTorchGives) {
  // torch.tensor(x, dtype=torch.float64).to(dtype).view(torch.int16), torch 2.13.
  const std::vector<double> values{0.0,
                                   -0.0,
                                   1.0,
                                   0.3333333333333333,
                                   -0.6666666666666666,
                                   3.14159265358979,
                                   65504.0,
                                   65519.999,
                                   65520.0,
                                   1e-08,
                                   6e-08,
                                   2.98e-08,
                                   -2.9802322387695312e-08,
                                   3.3895313892515355e+38,
                                   3.39617752923046e+38,
                                   1e+39,
                                   -1e+39,
                                   1.00390625,
                                   1.01171875,
                                   1.0039062500000002,
                                   1.0039063,
                                   1.00048828125,
                                   1.0004882812500002,
                                   1.00146484375,
                                   6.1e-05,
                                   6.103515625e-05,
                                   9.2e-41,
                                   4.6e-41,
                                   1e-45};
  const std::vector<std::uint16_t> brain{
      0x0000, 0x8000, 0x3F80, 0x3EAB, 0xBF2B, 0x4049, 0x4780, 0x4780, 0x4780, 0x322C,
      0x3381, 0x3300, 0xB300, 0x7F7F, 0x7F80, 0x7F80, 0xFF80, 0x3F80, 0x3F82, 0x3F80,
      0x3F80, 0x3F80, 0x3F80, 0x3F80, 0x3880, 0x3880, 0x0001, 0x0001, 0x0000};
  const std::vector<std::uint16_t> half{
      0x0000, 0x8000, 0x3C00, 0x3555, 0xB955, 0x4248, 0x7BFF, 0x7C00, 0x7C00, 0x0000,
      0x0001, 0x0000, 0x8000, 0x7C00, 0x7C00, 0x7C00, 0xFC00, 0x3C04, 0x3C0C, 0x3C04,
      0x3C04, 0x3C00, 0x3C00, 0x3C02, 0x03FF, 0x0400, 0x0000, 0x0000, 0x0000};
  EXPECT_EQ(cast<std::uint16_t>(DType::kFloat64, DType::kBFloat16, values), brain);
  EXPECT_EQ(cast<std::uint16_t>(DType::kFloat64, DType::kFloat16, values), half);
}

TEST(Convert, EveryLengthAndAlignment) {
  const std::array types{DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16};
  std::vector<double> numbers(40);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.5 * static_cast<double>(i) - 3;
  for (const DType from : types)
    for (const DType to : types)
      for (std::size_t count = 0; count <= numbers.size(); ++count)
        for (const std::size_t shift : {0U, 1U, 3U}) {
          const auto in_item = static_cast<std::size_t>(item_bytes(from));
          const auto out_item = static_cast<std::size_t>(item_bytes(to));
          // One byte of canary on each side of what may be written.
          std::vector<std::byte> in(shift + count * in_item);
          std::vector<std::byte> out(shift + count * out_item + 2, std::byte{0x5A});
          std::vector<std::byte> expected(count * out_item);
          const auto source = std::as_bytes(std::span(numbers).first(count));
          convert(DType::kFloat64, source, from, std::span(in).subspan(shift));
          convert(DType::kFloat64, source, to, expected);  // exact in every type
          convert(from, std::span(in).subspan(shift), to,
                  std::span(out).subspan(shift + 1, count * out_item));
          EXPECT_EQ(out[shift], std::byte{0x5A});
          EXPECT_EQ(out.back(), std::byte{0x5A});
          EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                                 out.begin() + static_cast<std::ptrdiff_t>(shift + 1)))
              << torch_name(from) << " to " << torch_name(to) << ", " << count;
        }
}

TEST(Convert, EqualTypesKeepEveryBit) {
  const auto bits = every_16_bits();
  EXPECT_EQ(cast<std::uint16_t>(DType::kFloat16, DType::kFloat16, bits), bits);
  EXPECT_EQ(cast<std::uint16_t>(DType::kBFloat16, DType::kBFloat16, bits), bits);
}

}  // namespace
}  // namespace shardkit
