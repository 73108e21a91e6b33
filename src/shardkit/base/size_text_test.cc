// Tests of parse_size against huggingface_hub's parse_size_to_int, and of format_bytes.
#include "shardkit/base/size_text.h"

#include "shardkit/testing/matchers.h"

namespace shardkit {
namespace {

using testing::Fails;

std::uint64_t size_of(std::string_view text) {
  const auto size = parse_size(text);
  EXPECT_THAT(size, testing::IsOk());
  return size.ok() ? *size : 0;
}

TEST(ParseSize, DecimalUnitsAreHuggingFaces) {
  // huggingface_hub 2.4: parse_size_to_int(text)
  EXPECT_EQ(size_of("5GB"), 5'000'000'000u);
  EXPECT_EQ(size_of("500MB"), 500'000'000u);
  EXPECT_EQ(size_of("10kb"), 10'000u);
  EXPECT_EQ(size_of(" 1.5 GB "), 1'500'000'000u);
  EXPECT_EQ(size_of("2TB"), 2'000'000'000'000u);
  EXPECT_EQ(size_of("0.3GB"), 300'000'000u);
}

TEST(ParseSize, BinaryUnitsAndPlainNumbers) {
  EXPECT_EQ(size_of("256MiB"), 256u << 20);
  EXPECT_EQ(size_of("1GiB"), 1u << 30);
  EXPECT_EQ(size_of("1.5kib"), 1536u);
  EXPECT_EQ(size_of("0.5TiB"), std::uint64_t{1} << 39);
  EXPECT_EQ(size_of("0.000001 KB"), 0u);
  EXPECT_EQ(size_of("4096"), 4096u);
  EXPECT_EQ(size_of("7 B"), 7u);
  EXPECT_EQ(size_of("0"), 0u);
  EXPECT_EQ(size_of("9223372036854775807"), 9223372036854775807u);
}

TEST(ParseSize, RefusesTheRest) {
  for (const char* text : {"",
                           " ",
                           "GB",
                           "-1",
                           "1.5",
                           "1.GB",
                           ".5GB",
                           "1.2.3GB",
                           "5G",
                           "5XB",
                           "1e3",
                           "0x10",
                           "5 GB GB",
                           "1,5GB",
                           "1.0000001GB",
                           "9223372036854775808",
                           "99999999999999999999",
                           "9223373TB",
                           "NaN",
                           "+1"})
    EXPECT_THAT(parse_size(text), Fails(ErrorCode::kInvalidArgument, "is no size in bytes"))
        << text;
  EXPECT_THAT(parse_size("5G"), Fails(ErrorCode::kInvalidArgument, "KiB, MiB, GiB, TiB"));
}

TEST(FormatBytes, OneDecimalOfTheLargestUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.0 kB");
  EXPECT_EQ(format_bytes(1549), "1.5 kB");
  EXPECT_EQ(format_bytes(999'949), "999.9 kB");
  EXPECT_EQ(format_bytes(999'950), "1.0 MB");
  EXPECT_EQ(format_bytes(2'000'000'000), "2.0 GB");
  EXPECT_EQ(format_bytes(15'231'000'000), "15.2 GB");
  EXPECT_EQ(format_bytes(1'400'000'000'000), "1.4 TB");
  EXPECT_EQ(format_bytes(18446744073709551615u), "18.4 EB");
}

}  // namespace
}  // namespace shardkit
