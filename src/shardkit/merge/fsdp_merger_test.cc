#include "shardkit/merge/fsdp_merger.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "shardkit/io/file_system.h"
#include "shardkit/merge/rank_files_test_util.h"
#include "shardkit/safetensors/reader.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using testing::Fails;
using testing::float_tensor;
using testing::IsOk;
using testing::make_dict;
using testing::make_sharding;

/// Writes small checkpoints and merges them.
class MergeTest : public ::testing::Test {
 protected:
  MergeTest() {
    options_.local_dir = dir_ / "ckpt";
    options_.target_dir = dir_ / "out";
    options_.dtype.kind = hf::DTypeChoice::Kind::kKeep;
  }

  void write_ranks(const std::vector<Value>& ranks) { testing::write_ranks(dir_ / "ckpt", ranks); }

  void write_config(const std::string& text) {
    testing::write_file(dir_ / "ckpt/huggingface/config.json", text);
  }

  Result<MergeReport> merge() {
    return FSDPModelMerger(posix_file_system(), options_).merge_and_save();
  }

  /// The float32 tensors of the merged file.
  std::map<std::string, std::vector<float>> merged() {
    const std::string path = dir_ / "out/model.safetensors";
    const std::string bytes = testing::read_file(path);
    std::map<std::string, std::vector<float>> tensors;
    const Dict dict = safetensors::read_safetensors(posix_file_system(), path).value();
    for (const auto& [key, value] : dict.items) {
      const Tensor& tensor = *value.get_if<Tensor>();
      std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
      if (!values.empty())  // memcpy takes no null
        std::memcpy(values.data(), bytes.data() + tensor.storage->file()->offset,
                    values.size() * 4);
      tensors[*key.get_if<std::string>()] = values;
    }
    return tensors;
  }

  void expect_no_output() {
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
      EXPECT_EQ(entry.path().filename(), "ckpt");
  }

  testing::TempDir dir_;
  MergeOptions options_;
};

constexpr const char* kTied = R"({"architectures": ["LlamaForCausalLM"],
    "model_type": "llama", "tie_word_embeddings": true, "dtype": "bfloat16"})";

TEST_F(MergeTest, TransposedAndRepeatedSourcesAreReadInRowOrder) {
  Tensor transposed = float_tensor({3, 2}, {1, 2, 3, 4, 5, 6});
  transposed.shape = {2, 3};
  transposed.strides = {1, 2};
  Tensor repeated = float_tensor({2}, {7, 8});
  repeated.shape = {2, 2};
  repeated.strides = {0, 1};
  write_ranks({make_dict({{"t", transposed}, {"r", repeated}})});
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged()["t"], (std::vector<float>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(merged()["r"], (std::vector<float>{7, 8, 7, 8}));
}

TEST_F(MergeTest, PartialAddendsAreReduced) {
  const auto average = make_sharding({2}, {0, 1}, {Partial{ReduceOp::kAvg}}, {2});
  const auto product = make_sharding({2}, {0, 1}, {Partial{ReduceOp::kProduct}}, {2});
  write_ranks({make_dict({{"a", DTensor{float_tensor({2}, {1, 2}), average}},
                          {"p", DTensor{float_tensor({2}, {3, 4}), product}}}),
               make_dict({{"a", DTensor{float_tensor({2}, {4, 5}), average}},
                          {"p", DTensor{float_tensor({2}, {5, 6}), product}}})});
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged()["a"], (std::vector<float>{2.5, 3.5}));
  EXPECT_EQ(merged()["p"], (std::vector<float>{15, 24}));
}

TEST_F(MergeTest, ADifferentReplicaIsRefusedAndLeavesNothing) {
  const auto replicated = make_sharding({2}, {0, 1}, {Replicate{}}, {2});
  write_ranks({make_dict({{"w", DTensor{float_tensor({2}, {1, 2}), replicated}}}),
               make_dict({{"w", DTensor{float_tensor({2}, {1, 3}), replicated}}})});
  EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete,
                             "ranks 0 and 1 hold different copies, first at element [1]"));
  expect_no_output();
  options_.replicas = ReplicaPolicy::kFirst;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged()["w"], (std::vector<float>{1, 2}));
}

TEST_F(MergeTest, EqualShardsOfAShardedTensorAreNotTakenForCopies) {
  const auto rows = make_sharding({2}, {0, 1}, {Shard{0}}, {4});
  const Value file = make_dict({{"norm", DTensor{float_tensor({2}, {1, 1}), rows}}});
  write_ranks({file, file});
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged()["norm"], (std::vector<float>{1, 1, 1, 1}));
}

TEST_F(MergeTest, TiedAndSharedIsDropped) {
  const Tensor weight = float_tensor({2}, {1, 2});
  write_ranks({make_dict({{"model.embed_tokens.weight", weight}, {"lm_head.weight", weight}})});
  write_config(kTied);
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->dropped_ties, std::vector<std::string>{"lm_head.weight"});
  EXPECT_EQ(merged().count("lm_head.weight"), 0u);
}

TEST_F(MergeTest, TiedInTextConfigAndEqualIsDropped) {
  write_ranks({make_dict({{"model.embed_tokens.weight", float_tensor({2}, {1, 2})},
                          {"lm_head.weight", float_tensor({2}, {1, 2})}})});
  write_config(R"({"model_type": "qwen2_vl", "text_config": {"tie_word_embeddings": true}})");
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->dropped_ties, std::vector<std::string>{"lm_head.weight"});
}

/// transformers 5.24 does not tie these two: it would make an lm_head that is missing at random.
TEST_F(MergeTest, TiedInTextConfigAloneIsKeptWhereTheLoaderLooksAtTheTopLevel) {
  write_ranks({make_dict({{"model.language_model.embed_tokens.weight", float_tensor({2}, {1, 2})},
                          {"lm_head.weight", float_tensor({2}, {1, 2})}})});
  write_config(R"({"model_type": "qwen3_vl", "text_config": {"tie_word_embeddings": true}})");
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->dropped_ties, ::testing::IsEmpty());
  EXPECT_EQ(merged()["lm_head.weight"], (std::vector<float>{1, 2}));
}

TEST_F(MergeTest, TiedButDifferentIsKeptWithAWarning) {
  write_ranks({make_dict({{"model.embed_tokens.weight", float_tensor({2}, {1, 2})},
                          {"lm_head.weight", float_tensor({2}, {1, 3})}})});
  write_config(kTied);
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_NE(report->warnings[0].find("but they differ"), std::string::npos);
  EXPECT_EQ(merged()["lm_head.weight"], (std::vector<float>{1, 3}));
}

TEST_F(MergeTest, KeepTiedAndUntiedAndAbsent) {
  const Tensor weight = float_tensor({2}, {1, 2});
  write_ranks({make_dict({{"model.embed_tokens.weight", weight}, {"lm_head.weight", weight}})});
  write_config(kTied);
  options_.keep_tied = true;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged().size(), 2u);
  options_.keep_tied = false;
  options_.existing = ExistingTarget::kReplace;
  write_config(R"({"model_type": "llama", "tie_word_embeddings": false})");
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged().size(), 2u) << "equal, but not tied";
  std::filesystem::remove_all(dir_ / "ckpt");
  write_ranks({make_dict({{"lm_head.weight", weight}})});
  write_config(kTied);
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged().count("lm_head.weight"), 1u) << "the only copy is never dropped";
}

TEST_F(MergeTest, PlainTensorsThatMayBeCopiesAreRefused) {
  const Value file = make_dict({{"w", float_tensor({2}, {1, 2})}});
  write_ranks({file, file});
  EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete, "--plain-tensors"));
  expect_no_output();
  options_.plain = PlainTensors::kReplicate;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged()["w"], (std::vector<float>{1, 2}));
  options_.existing = ExistingTarget::kReplace;
  options_.plain = PlainTensors::kConcat;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged()["w"], (std::vector<float>{1, 2, 1, 2}));
}

TEST_F(MergeTest, PlainTensorsThatJoinToAnotherShapeThanTheConfigImpliesAreRefused) {
  write_ranks({make_dict({{"model.norm.weight", float_tensor({2}, {1, 2})}}),
               make_dict({{"model.norm.weight", float_tensor({2}, {3, 4})}})});
  write_config(R"({"model_type": "llama", "hidden_size": 2})");
  EXPECT_THAT(merge(),
              Fails(ErrorCode::kIncomplete, "tensor 'model.norm.weight', expected [2], found [4]"));
  write_config(R"({"model_type": "llama", "hidden_size": 4})");
  ASSERT_THAT(merge(), IsOk());
}

TEST_F(MergeTest, TheConfigGetsTheDtypeOfMostBytesAndNothingElse) {
  write_ranks(
      {make_dict({{"a", float_tensor({1}, {1})},
                  {"b", testing::make_tensor<std::uint16_t>(DType::kFloat16, {3}, {1, 2, 3})},
                  {"c", testing::make_tensor<std::int64_t>(DType::kInt64, {9},
                                                           std::vector<std::int64_t>(9))}})});
  write_config("{\n  \"torch_dtype\" :  \"bfloat16\",\"x\":1e3 }\n");
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(testing::read_file(dir_ / "out/config.json"),
            "{\n  \"torch_dtype\" :  \"float16\",\"x\":1e3 }\n");
}

TEST_F(MergeTest, AutoTakesTheConfigsDtype) {
  write_ranks({make_dict({{"w", float_tensor({2}, {1, 2})}})});
  options_.dtype.kind = hf::DTypeChoice::Kind::kAuto;
  EXPECT_THAT(merge(), Fails(ErrorCode::kInvalidArgument, "config"));
  write_config(R"({"dtype": "float16"})");
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->config_dtype, DType::kFloat16);
}

TEST_F(MergeTest, ATargetThatHoldsTheInputIsRefused) {
  write_ranks({make_dict({{"w", float_tensor({2}, {1, 2})}})});
  write_config("{}");
  options_.existing = ExistingTarget::kReplace;
  for (const char* target : {"ckpt", "ckpt/huggingface", "."}) {
    options_.target_dir = dir_ / target;
    EXPECT_THAT(merge(), Fails(ErrorCode::kInvalidArgument, "holds the checkpoint")) << target;
  }
  EXPECT_TRUE(std::filesystem::exists(dir_ / "ckpt/model_world_size_1_rank_0.pt"));
}

TEST_F(MergeTest, TensorsOnTheMetaDeviceAreRefused) {
  Tensor meta = float_tensor({2}, {1, 2});
  meta.storage = std::make_shared<const Storage>(NoBytes{}, 8);
  write_ranks({make_dict({{"w", meta}})});
  EXPECT_THAT(merge(), Fails(ErrorCode::kUnsupported, "meta device"));
}

TEST_F(MergeTest, ADtypeThatSafetensorsCannotHoldIsRefusedByName) {
  write_ranks(
      {make_dict({{"w", testing::make_tensor<std::int64_t>(DType::kComplex128, {1}, {1, 2})}})});
  EXPECT_THAT(merge(), Fails(ErrorCode::kUnsupported, "tensor 'w'"));
  expect_no_output();
}

TEST_F(MergeTest, ACheckpointWithoutTensorsIsRefused) {
  write_ranks({make_dict({{"step", std::int64_t{3}}})});
  EXPECT_THAT(merge(), Fails(ErrorCode::kInvalidArgument,
                             "the checkpoint holds no tensors to write: file '" + dir_ / "ckpt"));
  expect_no_output();
}

TEST_F(MergeTest, ATensorThatACastMakesTooLargeIsRefused) {
  auto repeated = testing::make_tensor<std::uint16_t>(DType::kBFloat16, {1}, {0});
  repeated.shape = {std::int64_t{1} << 61};
  repeated.strides = {0};
  write_ranks({make_dict({{"w", repeated}})});
  options_.dtype = {hf::DTypeChoice::Kind::kCast, DType::kFloat32};
  EXPECT_THAT(merge(), Fails(ErrorCode::kCorrupt,
                             "a tensor of this shape and dtype has too many bytes: tensor 'w', "
                             "found [2305843009213693952] of float32"));
  expect_no_output();
}

TEST_F(MergeTest, TensorsWithoutElementsAreWritten) {
  const auto rows = make_sharding({2}, {0, 1}, {Shard{0}}, {0, 3});
  const Value file =
      make_dict({{"e", DTensor{float_tensor({0, 3}, {}), rows}}, {"b", float_tensor({0}, {})}});
  write_ranks({file, file});
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged().size(), 2u);
}

}  // namespace
}  // namespace shardkit
