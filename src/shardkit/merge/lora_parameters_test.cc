// Tests of adapters of parameters: which is told, what is folded (by hand), and what is refused.
#include "shardkit/merge/lora_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shardkit/checkpoint/discover.h"
#include "shardkit/json/parse.h"
#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/merge/lora_catalog.h"
#include "shardkit/merge/rank_files_test_util.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"
#include "shardkit/torch_pt/writer.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::float_tensor;
using ::testing::HasSubstr;
using testing::IsOk;

using Entry = std::pair<std::string, Value>;

/// Two experts of rank 2: A is {1, 2} of the first and {3, 4} of the second; of B's columns the
/// first and third are the first's. So B A is {7, 19} and {22, 50}.
const Tensor kA = float_tensor({4, 1}, {1, 2, 3, 4});
const Tensor kB = float_tensor({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
/// Of three columns and one row: {1, 3, 0} and {4, 4, 6}.
const Tensor kWideA = float_tensor({4, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
const Tensor kWideB = float_tensor({1, 4}, {1, 2, 3, 4});
/// Of one column and one row.
const Tensor kSmallA = float_tensor({4, 1}, {1, 1, 2, 2});
const Tensor kSmallB = float_tensor({1, 4}, {1, 1, 1, 1});

Entry experts(const std::string& rest, Tensor tensor) {
  return {"base_model.model.m.mlp.experts." + rest, std::move(tensor)};
}

class LoraParametersTest : public ::testing::Test {
 protected:
  LoraParametersTest() {
    options_.local_dir = dir_ / "ckpt";
    options_.dtype.kind = hf::DTypeChoice::Kind::kKeep;
    options_.lora.mode = LoraMode::kMerge;
    options_.lora.alpha = 4;
  }

  void write(std::vector<Entry> entries) {
    std::filesystem::remove(dir_ / "ckpt/model_world_size_1_rank_0.pt");
    Dict dict;
    for (auto& [name, tensor] : entries) dict.items.emplace_back(Value(name), std::move(tensor));
    testing::write_ranks(dir_ / "ckpt", {std::move(dict)});
  }
  void write_config(const std::string& text) {
    testing::write_file(dir_ / "ckpt/huggingface/config.json", text);
  }
  void write_adapter_config(const std::string& text) {
    testing::write_file(dir_ / "ckpt/lora_adapter/adapter_config.json", text);
  }
  Result<Tensor> merge(const std::string& parameter) {
    FSDPModelMerger merger(posix_file_system(), options_);
    return merger.merge_by_placement("m.mlp.experts." + parameter);
  }
  std::vector<float> merged(const std::string& parameter) {
    const auto tensor = merge(parameter);
    EXPECT_THAT(tensor, IsOk());
    return tensor.ok() ? testing::stored_floats(*tensor) : std::vector<float>();
  }
  LoraCatalog take_apart() {
    auto folder = discover_checkpoint(posix_file_system(), options_.local_dir);
    const MergeSource source =
        open_merge_source(posix_file_system(), *std::move(folder), "", PlainTensors::kAuto).value();
    return take_lora_apart(posix_file_system(), source, options_.lora).value();
  }

  testing::TempDir dir_;
  MergeOptions options_;
};

std::vector<Entry> two_parameters() {
  return {experts("base_layer.base_layer.gate_up_proj", float_tensor({2, 2, 1}, {10, 20, 30, 40})),
          experts("base_layer.base_layer.down_proj", float_tensor({2, 1, 3}, {0, 0, 0, 1, 1, 1})),
          experts("base_layer.lora_A.default.weight", kA),
          experts("base_layer.lora_B.default.weight", kB),
          experts("lora_A.default.weight", kWideA),
          experts("lora_B.default.weight", kWideB)};
}

TEST_F(LoraParametersTest, EachExpertGetsItsOwnUpdate) {
  write(two_parameters());
  EXPECT_THAT(merged("gate_up_proj"), ElementsAre(24, 58, 74, 140));
  EXPECT_THAT(merged("down_proj"), ElementsAre(2, 6, 0, 9, 9, 13));
}

TEST_F(LoraParametersTest, TheAdapterBesideTheModelHasPeftsNamesAndConfig) {
  write(two_parameters());
  options_.lora.mode = LoraMode::kAdapter;
  const LoraCatalog apart = take_apart();
  ASSERT_EQ(apart.adapter.size(), 4u);
  EXPECT_EQ(apart.adapter[0].name, "base_model.model.m.mlp.experts.base_layer.lora_A.weight");
  EXPECT_EQ(apart.adapter[3].name, "base_model.model.m.mlp.experts.lora_B.weight");
  EXPECT_EQ(apart.model->tensors[0].name, "m.mlp.experts.gate_up_proj");
  EXPECT_EQ(to_string(*apart.summary),
            "'default': 2 modules of rank 2, lora_alpha 4 (--lora-alpha), on experts.gate_up_proj, "
            "experts.down_proj");
  const json::Value config = json::parse(apart.adapter_config).value();
  EXPECT_EQ(config.find("r")->as_int64(), 2);
  EXPECT_TRUE(config.find("target_modules")->get_if<json::Array>()->items.empty());
  EXPECT_EQ(config.find("target_parameters")->get_if<json::Array>()->items.size(), 2u);
}

TEST_F(LoraParametersTest, ShapesTellWhetherExpertsAreHeldTransposed) {
  write({experts("base_layer.base_layer.gate_up_proj", float_tensor({2, 1, 2}, {10, 20, 30, 40})),
         experts("base_layer.base_layer.down_proj", float_tensor({2, 1, 1}, {5, 6})),
         experts("base_layer.lora_A.default.weight", kA),
         experts("base_layer.lora_B.default.weight", kB), experts("lora_A.default.weight", kSmallA),
         experts("lora_B.default.weight", kSmallB)});
  EXPECT_THAT(merged("gate_up_proj"), ElementsAre(24, 58, 74, 140));
  EXPECT_THAT(merged("down_proj"), ElementsAre(9, 14));
}

TEST_F(LoraParametersTest, OfSquareExpertsTheModelTypeTells) {
  const Tensor a = float_tensor({2, 2}, {1, 2, 1, 2});
  const Tensor b = float_tensor({2, 2}, {3, 3, 4, 4});  // B A is {3, 6; 4, 8} of both
  write({experts("base_layer.down_proj", float_tensor({2, 2, 2}, std::vector<float>(8, 0))),
         experts("lora_A.default.weight", a), experts("lora_B.default.weight", b)});
  options_.lora.alpha = 1;
  EXPECT_THAT(merge("down_proj"), Fails(ErrorCode::kIncomplete, "these square experts"));
  write_config(R"({"model_type": "qwen3_moe"})");
  EXPECT_THAT(merged("down_proj"), ElementsAre(3, 6, 4, 8, 3, 6, 4, 8));
  write_config(R"({"model_type": "gpt_oss"})");
  EXPECT_THAT(merged("down_proj"), ElementsAre(3, 4, 6, 8, 3, 4, 6, 8));
}

// peft's Linear.get_delta_weight, which is B A, whatever the model.
TEST_F(LoraParametersTest, AMatrixAndASingleExpertAreNeverTurned) {
  const Tensor a = float_tensor({1, 2}, {1, 2}), b = float_tensor({2, 1}, {3, 4});
  options_.lora.alpha = 1;
  write_config(R"({"model_type": "gpt2"})");
  write_adapter_config(R"({"target_parameters": ["c_proj.weight", "single"], "r": 1,
                           "rank_pattern": {"c_proj": 3}})");
  write({{"m.c_proj.base_layer.weight", float_tensor({2, 2}, {0, 0, 0, 0})},
         {"m.c_proj.lora_A.default.weight", a},
         {"m.c_proj.lora_B.default.weight", b},
         experts("base_layer.single", float_tensor({1, 2, 2}, {0, 0, 0, 0})),
         experts("lora_A.default.weight", a),
         experts("lora_B.default.weight", b)});
  EXPECT_THAT(merged("single"), ElementsAre(3, 6, 4, 8));
  FSDPModelMerger merger(posix_file_system(), options_);
  EXPECT_THAT(testing::stored_floats(merger.merge_by_placement("m.c_proj.weight").value()),
              ElementsAre(3, 6, 4, 8));
}

TEST_F(LoraParametersTest, OfEqualShapesTheNamedOnesCountInTheirOrder) {
  const Tensor zeros = float_tensor({2, 2, 1}, {0, 0, 0, 0});
  const Tensor none = float_tensor({4, 1}, {0, 0, 0, 0});
  write({experts("base_layer.base_layer.w1", zeros), experts("base_layer.base_layer.w2", zeros),
         experts("base_layer.base_layer.w3", zeros),
         experts("base_layer.lora_A.default.weight", none),
         experts("base_layer.lora_B.default.weight", kB), experts("lora_A.default.weight", kA),
         experts("lora_B.default.weight", kB)});
  EXPECT_THAT(merge("w1"), Fails(ErrorCode::kIncomplete, "cannot be told by shapes"));
  EXPECT_THAT(merge("w1"), Fails(ErrorCode::kIncomplete, "tensor 'm.mlp.experts'"));
  write_adapter_config(R"({"target_parameters": ["experts.w3", "mlp.experts.w1"], "r": 2})");
  EXPECT_THAT(merged("w1"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(merged("w2"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(merged("w3"), ElementsAre(14, 38, 44, 100));
  write_adapter_config(R"({"target_parameters": ["experts.w1"], "r": 2})");
  EXPECT_THAT(merge("w1"), Fails(ErrorCode::kIncomplete, "not as many adapters as parameters"));
}

TEST_F(LoraParametersTest, PatternsNameParameters) {
  write(two_parameters());
  write_adapter_config(R"({"target_parameters": ["gate_up_proj", "down_proj"], "r": 2,
                           "alpha_pattern": {"experts": 100, "experts.gate_up_proj": 2}})");
  EXPECT_THAT(merged("gate_up_proj"), ElementsAre(17, 39, 52, 90));
  EXPECT_THAT(merged("down_proj"), ElementsAre(2, 6, 0, 9, 9, 13));
  write_adapter_config(R"({"target_parameters": ["gate_up_proj", "down_proj"], "r": 4})");
  EXPECT_THAT(merge("down_proj"), Fails(ErrorCode::kIncomplete, "fits no parameter"));
}

TEST_F(LoraParametersTest, ShapesThatFitNothingAreRefused) {
  auto entries = two_parameters();
  entries[4].second = float_tensor({4, 5}, std::vector<float>(20, 0));
  write(entries);
  const auto result = merge("down_proj");
  EXPECT_THAT(result, Fails(ErrorCode::kIncomplete, "fits no parameter of its module"));
  EXPECT_THAT(result.error().message(), HasSubstr("down_proj [2, 1, 3]"));
}

TEST_F(LoraParametersTest, ExpertsOfOneModuleAreAllHeldTheSameWay) {
  auto entries = two_parameters();
  entries[1].second = float_tensor({2, 3, 1}, {0, 0, 0, 1, 1, 1});
  write(entries);
  EXPECT_THAT(merge("down_proj"),
              Fails(ErrorCode::kIncomplete,
                    "by their shapes, some experts of the module are stored as out x in, others as "
                    "in x out: tensor 'm.mlp.experts'"));
}

TEST_F(LoraParametersTest, AnAdapterAloneIsWrittenIfAFileTellsOfIt) {
  auto entries = two_parameters();
  entries.erase(entries.begin(), entries.begin() + 2);
  write(entries);
  options_.lora.mode = LoraMode::kAdapterOnly;
  FSDPModelMerger merger(posix_file_system(), options_);
  EXPECT_THAT(merger.decide(), Fails(ErrorCode::kIncomplete, "without the base weights"));
  write_adapter_config(R"({"target_parameters": ["gate_up_proj", "down_proj"], "r": 2})");
  const LoraCatalog apart = take_apart();
  EXPECT_EQ(apart.adapter.size(), 4u);
  EXPECT_THAT(apart.summary->ranks, ElementsAre(2));
}

TEST_F(LoraParametersTest, ABaseModelThatHoldsExpertsInOneTensorIsFoldedByShapes) {
  const auto write_base = [this](std::vector<Entry> entries) {
    options_.base_model_dir = dir_ / "base";
    testing::write_file(dir_ / "base/config.json", "{}");
    Dict dict;
    for (auto& [name, tensor] : entries) dict.items.emplace_back(Value(name), std::move(tensor));
    std::filesystem::remove(dir_ / "base/pytorch_model.bin");
    const auto file = posix_file_system().create(dir_ / "base/pytorch_model.bin").value();
    write_pt(*file, Value(std::move(dict)), {}).value();
    file->close().value();
  };
  auto entries = two_parameters();
  entries.erase(entries.begin(), entries.begin() + 2);
  write(entries);
  write_adapter_config(R"({"target_parameters": ["gate_up_proj", "down_proj"], "r": 2})");
  write_base({{"m.mlp.experts.down_proj", float_tensor({2, 1, 3}, {0, 0, 0, 1, 1, 1})},
              {"m.mlp.experts.gate_up_proj", float_tensor({2, 2, 1}, {10, 20, 30, 40})}});
  EXPECT_THAT(merged("gate_up_proj"), ElementsAre(24, 58, 74, 140));
  EXPECT_THAT(merged("down_proj"), ElementsAre(2, 6, 0, 9, 9, 13));
  write_base({{"m.mlp.experts.0.down_proj.weight", float_tensor({1, 3}, {0, 0, 0})},
              {"m.mlp.experts.1.down_proj.weight", float_tensor({1, 3}, {0, 0, 0})}});
  EXPECT_THAT(merge("down_proj"), Fails(ErrorCode::kIncomplete, "one by one in a base model"));
}

}  // namespace
}  // namespace shardkit
