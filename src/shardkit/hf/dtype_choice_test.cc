// Tests of the choice of an element type.
#include "shardkit/hf/dtype_choice.h"

#include "shardkit/testing/matchers.h"

namespace shardkit::hf {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(DTypeChoice, ParsesEveryName) {
  using Kind = DTypeChoice::Kind;
  const auto cast_to = [](const char* text) {
    const DTypeChoice choice = parse_dtype_choice(text).value();
    EXPECT_EQ(choice.kind, Kind::kCast);
    return choice.dtype;
  };
  EXPECT_EQ(cast_to("bfloat16"), DType::kBFloat16);
  EXPECT_EQ(cast_to("bf16"), DType::kBFloat16);
  EXPECT_EQ(cast_to("float16"), DType::kFloat16);
  EXPECT_EQ(cast_to("fp16"), DType::kFloat16);
  EXPECT_EQ(cast_to("float32"), DType::kFloat32);
  EXPECT_EQ(cast_to("fp32"), DType::kFloat32);
  EXPECT_EQ(parse_dtype_choice("keep").value().kind, Kind::kKeep);
  EXPECT_EQ(parse_dtype_choice("auto").value().kind, Kind::kAuto);
  for (const char* text : {"", "BF16", "float8_e4m3fn", "int8", "float64"})
    EXPECT_THAT(parse_dtype_choice(text),
                Fails(ErrorCode::kInvalidArgument,
                      "is no choice of dtype: expected bfloat16, bf16, float16, fp16, float32, "
                      "fp32, keep, auto"));
}

TEST(DTypeChoice, CastsWideFloatsOnly) {
  const DTypeChoice cast{DTypeChoice::Kind::kCast, DType::kBFloat16};
  for (const DType stored : {DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16})
    EXPECT_EQ(output_dtype(cast, "w", stored), DType::kBFloat16);
  for (const DType stored : {DType::kFloat8E4M3FN, DType::kFloat4E2M1FNx2, DType::kInt64,
                             DType::kBool, DType::kComplex64, DType::kUInt8})
    EXPECT_EQ(output_dtype(cast, "w", stored), stored);
  EXPECT_EQ(output_dtype({DTypeChoice::Kind::kKeep, {}}, "w", DType::kFloat32), DType::kFloat32);
}

TEST(DTypeChoice, NamesThatFitAPatternStayAsStored) {
  DTypeChoice cast{
      DTypeChoice::Kind::kCast, DType::kBFloat16, {"*correction_bias", "model.norm.*"}};
  EXPECT_EQ(output_dtype(cast, "gate.e_score_correction_bias", DType::kFloat32), DType::kFloat32);
  EXPECT_EQ(output_dtype(cast, "model.norm.weight", DType::kFloat16), DType::kFloat16);
  EXPECT_EQ(output_dtype(cast, "model.layers.0.weight", DType::kFloat32), DType::kBFloat16);
  cast.kind = DTypeChoice::Kind::kAuto;
  ModelConfig config;
  config.dtype = DType::kFloat16;
  EXPECT_EQ(resolve(cast, &config)->keep, cast.keep);
}

TEST(DTypeChoice, AutoTakesTheConfigs) {
  const DTypeChoice automatic{DTypeChoice::Kind::kAuto, {}};
  ModelConfig config;
  EXPECT_THAT(resolve(automatic, nullptr), Fails(ErrorCode::kInvalidArgument, "there is none"));
  EXPECT_THAT(resolve(automatic, &config), Fails(ErrorCode::kInvalidArgument, "names none"));
  config.dtype = DType::kFloat8E4M3FN;
  EXPECT_THAT(resolve(automatic, &config), Fails(ErrorCode::kInvalidArgument, "float8_e4m3fn"));
  config.dtype = DType::kFloat16;
  const auto resolved = resolve(automatic, &config);
  ASSERT_THAT(resolved, IsOk());
  EXPECT_EQ(output_dtype(*resolved, "w", DType::kFloat32), DType::kFloat16);
  const auto kept = resolve({DTypeChoice::Kind::kKeep, {}}, nullptr);
  ASSERT_THAT(kept, IsOk());
  EXPECT_EQ(kept->kind, DTypeChoice::Kind::kKeep);
}

}  // namespace
}  // namespace shardkit::hf
