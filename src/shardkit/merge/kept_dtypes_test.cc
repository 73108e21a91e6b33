#include "shardkit/merge/kept_dtypes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardkit {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Told {
  std::vector<std::string> keep;
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
};

Told decide(const std::vector<std::pair<std::string, DType>>& tensors,
            std::vector<std::string> patterns, const std::string& config,
            const std::vector<CatalogTensor>& adapter = {}) {
  Catalog catalog;
  for (const auto& [name, dtype] : tensors) {
    CatalogTensor& tensor = catalog.tensors.emplace_back();
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = name.find("quant_state") == name.npos ? Dims{4, 4} : Dims{4};
  }
  MergeSource source;
  if (!config.empty()) source.config = hf::parse_config(config).value();
  source.catalog = std::make_shared<const Catalog>(std::move(catalog));
  hf::DTypeChoice choice;
  choice.keep = std::move(patterns);
  Told told;
  decide_kept_dtypes(source, {source.catalog, {}, {}, {}}, adapter, choice, told.notes,
                     told.warnings);
  told.keep = choice.keep;
  return told;
}

constexpr auto kConfig = R"({"quantization_config": {"quant_method": "fp8"}})";

TEST(KeptDTypes, PatternsAreCountedAndThoseThatFitNothingTold) {
  const Told told = decide({{"a.bias", DType::kFloat32}, {"b.bias", DType::kFloat32}},
                           {"*.bias", "*.wieght"}, "{}");
  EXPECT_THAT(told.notes, ElementsAre("2 tensors keep their dtype by '*.bias'"));
  EXPECT_THAT(told.warnings, ElementsAre("--keep-dtype '*.wieght' fits the name of no tensor"));
  EXPECT_THAT(told.keep, ElementsAre("*.bias", "*.wieght"));
}

TEST(KeptDTypes, PatternsMayBeOfAnAdapterAlone) {
  CatalogTensor factor;
  factor.name = "base_model.model.q.lora_A.weight";
  const Told told = decide({{"q.weight", DType::kFloat32}}, {"*lora_*"}, "{}", {factor});
  EXPECT_THAT(told.notes, ElementsAre("1 tensors keep their dtype by '*lora_*'"));
  EXPECT_THAT(told.warnings, IsEmpty());
}

TEST(KeptDTypes, ScalesOfEightBitFloatsAreKept) {
  const Told told = decide(
      {{"q.weight", DType::kFloat8E4M3FN}, {"q.weight_scale_inv", DType::kFloat32}}, {}, kConfig);
  EXPECT_THAT(told.keep, Contains("*_scale_inv"));
  EXPECT_THAT(told.notes,
              ElementsAre("1 tensors of 8-bit floats and their 1 scales stay as stored"));
  EXPECT_THAT(told.warnings, IsEmpty());
  EXPECT_EQ(hf::output_dtype({hf::DTypeChoice::Kind::kCast, DType::kBFloat16, told.keep},
                             "q.weight_scale_inv", DType::kFloat32),
            DType::kFloat32);
}

TEST(KeptDTypes, ScalesOfScalesAreKept) {
  // As compressed-tensors and ModelOpt hold 4-bit floats.
  const Told told = decide({{"q.weight_packed", DType::kUInt8},
                            {"q.weight_scale", DType::kFloat8E4M3FN},
                            {"q.weight_global_scale", DType::kFloat32},
                            {"q.input_global_scale", DType::kFloat32},
                            {"v.weight_scale_2", DType::kFloat32}},
                           {}, kConfig);
  for (const char* name : {"q.weight_global_scale", "q.input_global_scale", "v.weight_scale_2"})
    EXPECT_EQ(hf::output_dtype({hf::DTypeChoice::Kind::kCast, DType::kBFloat16, told.keep}, name,
                               DType::kFloat32),
              DType::kFloat32);
  EXPECT_THAT(told.warnings, IsEmpty());
}

TEST(KeptDTypes, CastsBesideIntegersThatNeedScalesAreTold) {
  EXPECT_THAT(
      decide({{"q.weight", DType::kUInt8}, {"q.weight.absmax", DType::kFloat32}}, {}, kConfig)
          .warnings,
      ElementsAre(HasSubstr("1 tensors are cast beside quantized weights")));
  EXPECT_THAT(decide({{"q.weight", DType::kUInt8}, {"q.weight.absmax", DType::kFloat32}},
                     {"*.absmax"}, kConfig)
                  .warnings,
              IsEmpty());
  EXPECT_THAT(
      decide({{"q.qweight", DType::kInt32}, {"q.scales", DType::kBFloat16}}, {}, kConfig).warnings,
      IsEmpty());
}

TEST(KeptDTypes, PackedWeightsMayLookLikeFloats) {
  // bitsandbytes under FSDP: 4-bit weights in the bits of bfloat16.
  EXPECT_THAT(decide({{"q.weight", DType::kBFloat16},
                      {"q.weight.quant_state.bitsandbytes__nf4", DType::kUInt8},
                      {"q.weight.absmax", DType::kFloat32}},
                     {"*.absmax"}, kConfig)
                  .warnings,
              IsEmpty());
  EXPECT_THAT(decide({{"q.weight", DType::kFloat16},
                      {"q.weight.quant_state.bitsandbytes__nf4", DType::kUInt8}},
                     {}, kConfig)
                  .warnings,
              ElementsAre(HasSubstr("1 tensors are cast beside quantized weights")));
}

TEST(KeptDTypes, WithoutEightBitFloatsScalesAreAsOtherTensors) {
  EXPECT_THAT(decide({{"logits.weight_scale", DType::kFloat32}}, {}, "{}").keep, IsEmpty());
}

TEST(KeptDTypes, AConfigThatDoesNotGoWithTheWeightsIsTold) {
  EXPECT_THAT(decide({{"q.weight", DType::kFloat8E5M2}}, {}, "{}").warnings,
              ElementsAre(HasSubstr("has no quantization_config")));
  EXPECT_THAT(decide({{"q.weight", DType::kFloat32}}, {}, kConfig).warnings,
              ElementsAre(HasSubstr("no tensor is quantized")));
  EXPECT_THAT(decide({{"q.weight", DType::kInt32}}, {}, kConfig).warnings, IsEmpty());
  EXPECT_THAT(decide({{"q.weight", DType::kFloat8E5M2}}, {}, "").warnings, IsEmpty());
}

}  // namespace
}  // namespace shardkit
