// Tests of lay_out: the first bytes are those of safetensors.torch.save_file, and data lies where
// that puts it.
#include "shardkit/safetensors/file_layout.h"

#include <algorithm>
#include <random>

#include "shardkit/base/checked_math.h"
#include "shardkit/safetensors/golden_test_util.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::safetensors {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(SafetensorsLayout, IsByteForByteSafetensors) {
  const json::Value expected = golden_json("expected.json");
  std::mt19937 random(1);
  for (const char* name : {"small", "every_dtype", "odd_names", "sizes", "none"}) {
    const std::string content = testing::read_file(golden_path(name + std::string(".safetensors")));
    std::vector<json::Value> tensors = items_of(at(expected, name));
    for (int round = 0; round < 5; ++round) {
      std::vector<TensorSpec> specs;
      for (const json::Value& tensor : tensors) specs.push_back(spec_of(tensor));
      const auto layout = lay_out(specs);
      ASSERT_THAT(layout, IsOk()) << name;
      std::string written = layout->head;
      for (const std::size_t i : layout->order) {
        EXPECT_EQ(layout->offsets[i], written.size());
        written += from_hex(text_of(at(tensors[i], "hex")));
      }
      EXPECT_EQ(written, content) << name;
      EXPECT_EQ(layout->file_bytes, content.size());
      std::shuffle(tensors.begin(), tensors.end(), random);
    }
  }
}

TEST(SafetensorsLayout, TakesMoreMetadata) {
  const std::vector<std::pair<std::string, std::string>> more{{"key", "{\"a\":1}"}};
  const auto layout = lay_out({}, more);
  ASSERT_THAT(layout, IsOk());
  EXPECT_EQ(layout->head.substr(8, layout->head.find_last_not_of(' ') - 7),
            R"({"__metadata__":{"format":"pt","key":"{\"a\":1}"}})");
  EXPECT_EQ(layout->head.size() % 8, 0u);
  for (const std::vector<std::pair<std::string, std::string>>& wrong :
       {std::vector<std::pair<std::string, std::string>>{{"a", ""}, {"a", ""}},
        {{"format", "pt"}},
        {{"a", "\xff"}}})
    EXPECT_THAT(lay_out({}, wrong), Fails(ErrorCode::kInvalidArgument, "an entry of the metadata"));
}

TEST(SafetensorsLayout, RefusesWhatTheFormatCannotHold) {
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
  const auto one = [](const char* name, DType dtype, Dims shape) {
    const TensorSpec spec{name, dtype, std::move(shape)};
    return lay_out(std::span(&spec, 1));
  };
  EXPECT_THAT(one("z", DType::kComplex128, {1}),
              Fails(ErrorCode::kUnsupported, "no type for complex128: tensor 'z'"));
  EXPECT_THAT(one("z", DType::kComplex32, {1}), Fails(ErrorCode::kUnsupported, "complex32"));
  EXPECT_THAT(one("z", DType::kFloat4E2M1FNx2, {}), Fails(ErrorCode::kUnsupported, "scalar"));
  EXPECT_THAT(one("__metadata__", DType::kFloat32, {1}), Fails(kInvalid, "this name for itself"));
  EXPECT_THAT(one("a\xFF", DType::kFloat32, {1}), Fails(kInvalid, "not UTF-8"));
  EXPECT_THAT(one("a", DType::kFloat32, {-1}), Fails(kInvalid, "negative"));
  EXPECT_THAT(one("a", DType::kFloat32, {std::int64_t{1} << 62, 2}), Fails(kInvalid, "too large"));
  EXPECT_THAT(one("a", DType::kFloat4E2M1FNx2, {0, std::int64_t{1} << 62}),
              Fails(kInvalid, "too large"));
  const std::vector<TensorSpec> huge{
      {"a", DType::kInt8, {INT64_MAX}}, {"b", DType::kInt8, {INT64_MAX}}, {"c", DType::kInt8, {2}}};
  EXPECT_THAT(lay_out(huge), Fails(kInvalid, "are too large for one file: tensor 'c'"));
  const TensorSpec nul{std::string("a\0b", 3), DType::kFloat32, {1}};
  EXPECT_THAT(lay_out(std::span(&nul, 1)), Fails(kInvalid, "NUL"));
  const std::vector<TensorSpec> twice{{"a", DType::kFloat32, {1}}, {"a", DType::kInt8, {1}}};
  EXPECT_THAT(lay_out(twice), Fails(kInvalid, "two tensors of one name: tensor 'a'"));
}

TEST(SafetensorsLayout, HoldsTheHeaderLimit) {
  std::vector<TensorSpec> specs(2, {std::string(50'000'000, 'a'), DType::kInt8, {1}});
  specs[1].name.back() = 'b';
  EXPECT_THAT(lay_out(specs), Fails(ErrorCode::kLimit, "at most 100000000 bytes"));
}

}  // namespace
}  // namespace shardkit::safetensors
