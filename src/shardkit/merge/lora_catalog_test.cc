// Tests of adapters: taken apart, folded in (bits by hand), and what is refused.
#include "shardkit/merge/lora_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "shardkit/checkpoint/discover.h"
#include "shardkit/merge/fsdp_merger.h"
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
using testing::make_tensor;

constexpr const char* kQ = "base_model.model.m.q.";

/// A checkpoint of one rank in memory of the test, merged or taken apart.
class LoraTest : public ::testing::Test {
 protected:
  LoraTest() {
    options_.local_dir = dir_ / "ckpt";
    options_.target_dir = dir_ / "out";
    options_.dtype.kind = hf::DTypeChoice::Kind::kKeep;
    options_.lora.mode = LoraMode::kMerge;
  }

  /// A checkpoint of one rank, instead of any that is there.
  void write(const Value& rank) {
    std::filesystem::remove(dir_ / "ckpt/model_world_size_1_rank_0.pt");
    testing::write_ranks(dir_ / "ckpt", {rank});
  }
  /// A folder of --base_model_dir.
  void write_base(const Value& tensors, const std::string& config) {
    options_.base_model_dir = dir_ / "base";
    testing::write_file(dir_ / "base/config.json", config);
    const auto file = posix_file_system().create(dir_ / "base/pytorch_model.bin").value();
    write_pt(*file, tensors, {}).value();
    file->close().value();
  }
  void write_adapter_config(const std::string& text) {
    testing::write_file(dir_ / "ckpt/lora_adapter/adapter_config.json", text);
  }
  Result<MergeReport> merge() {
    return FSDPModelMerger(posix_file_system(), options_).merge_and_save();
  }
  Result<LoraCatalog> take_apart() {
    SHARDKIT_ASSIGN(auto folder, discover_checkpoint(posix_file_system(), options_.local_dir));
    SHARDKIT_ASSIGN(
        const MergeSource source,
        open_merge_source(posix_file_system(), std::move(folder), "", PlainTensors::kAuto));
    return take_lora_apart(posix_file_system(), source, options_.lora);
  }

  /// A tensor of the merge.
  std::string merged_bytes(const std::string& name, const std::string& file) {
    const std::string path = dir_ / ("out/" + file);
    const Dict dict = safetensors::read_safetensors(posix_file_system(), path).value();
    for (const auto& [key, value] : dict.items) {
      if (*key.get_if<std::string>() != name) continue;
      const Storage& storage = *value.get_if<Tensor>()->storage;
      return testing::read_file(path).substr(storage.file()->offset, storage.bytes());
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  template <class T>
  std::vector<T> merged(const std::string& name, const std::string& file = "model.safetensors") {
    const std::string bytes = merged_bytes(name, file);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  testing::TempDir dir_;
  MergeOptions options_;
};

std::pair<std::string, Value> q(const std::string& rest, Tensor tensor) {
  return {kQ + rest, std::move(tensor)};
}

/// W {1, 2; 3, 4; 5, 6}, B A = {1, 3; 2, 6; 3, 9}.
Value small() {
  return make_dict({q("base_layer.weight", float_tensor({3, 2}, {1, 2, 3, 4, 5, 6})),
                    q("lora_A.default.weight", float_tensor({1, 2}, {1, 3})),
                    q("lora_B.default.weight", float_tensor({3, 1}, {1, 2, 3}))});
}

TEST_F(LoraTest, IsFoldedIn) {
  write(small());
  options_.lora.alpha = 0.5;
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(merged<float>("m.q.weight"), (std::vector<float>{1.5f, 3.5f, 4, 7, 6.5f, 10.5f}));
  EXPECT_EQ(report->summary.folds, 1u);
  EXPECT_EQ(report->summary.tensors, 1u);
}

TEST_F(LoraTest, TwoAdaptersOfOneWeightAreRefused) {
  write(make_dict({q("base_layer.base_layer.weight", float_tensor({1, 1, 1, 1}, {1})),
                   q("base_layer.lora_A.default.weight", float_tensor({1, 1, 1, 1}, {2})),
                   q("base_layer.lora_B.default.weight", float_tensor({1, 1, 1, 1}, {1})),
                   q("lora_A.default.weight", float_tensor({1, 1, 1, 1}, {4})),
                   q("lora_B.default.weight", float_tensor({1, 1, 1, 1}, {1}))}));
  write_adapter_config(R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1})");
  EXPECT_THAT(merge(), Fails(ErrorCode::kUnsupported, "several adapters of one weight"));
}

TEST_F(LoraTest, TheSumIsRoundedOnce) {
  // bfloat16 keeps 8 bits: 1 + 2^-8 lies halfway and goes to 1, but 1 + 2^-8 + 2^-16 does not. An
  // update that is rounded to bfloat16 first is 2^-8.
  const std::uint16_t one = 0x3f80;
  write(make_dict(
      {q("base_layer.weight", make_tensor<std::uint16_t>(DType::kBFloat16, {1, 1}, {one})),
       q("lora_A.default.weight", float_tensor({2, 1}, {0x1p-8f, 0x1p-16f})),
       q("lora_B.default.weight", float_tensor({1, 2}, {1, 1}))}));
  options_.lora.alpha = 2;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<std::uint16_t>("m.q.weight"), std::vector<std::uint16_t>{0x3f81});
}

TEST_F(LoraTest, DoublesAreFoldedAsDoubles) {
  write(make_dict({q("base_layer.weight", make_tensor<double>(DType::kFloat64, {1, 1}, {1})),
                   q("lora_A.default.weight", float_tensor({1, 1}, {0x1p-40f})),
                   q("lora_B.default.weight", float_tensor({1, 1}, {1}))}));
  options_.lora.alpha = 1;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<double>("m.q.weight"), std::vector<double>{1 + 0x1p-40});
}

TEST_F(LoraTest, EmbeddingsAreFoldedTransposed) {
  write(make_dict({{"m.e.base_layer.weight", float_tensor({3, 2}, {0, 0, 0, 0, 0, 0})},
                   {"m.e.lora_embedding_A.default", float_tensor({1, 3}, {1, 2, 3})},
                   {"m.e.lora_embedding_B.default", float_tensor({2, 1}, {1, 10})}}));
  options_.lora.alpha = 1;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("m.e.weight"), (std::vector<float>{1, 10, 2, 20, 3, 30}));
}

TEST_F(LoraTest, DoraScalesRowsToTheirMagnitudes) {
  // The sum's row is {3, 4}, of norm 5.
  write(make_dict({q("base_layer.weight", float_tensor({1, 2}, {2, 2})),
                   q("lora_A.default.weight", float_tensor({1, 2}, {1, 2})),
                   q("lora_B.default.weight", float_tensor({1, 1}, {1})),
                   q("lora_magnitude_vector.default.weight", float_tensor({1}, {10}))}));
  options_.lora.alpha = 1;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("m.q.weight"), (std::vector<float>{6, 8}));
}

TEST_F(LoraTest, FactorsThatAreShardedFoldAsWholeOnes) {
  const auto rows = [](Dims shape) {
    return make_sharding({2}, {0, 1}, {Shard{0}}, std::move(shape));
  };
  const auto columns = make_sharding({2}, {0, 1}, {Shard{1}}, {1, 2});
  const auto rank = [&](std::vector<float> w, std::vector<float> a, std::vector<float> b) {
    const auto height = static_cast<std::int64_t>(b.size());
    return make_dict(
        {{std::string(kQ) + "base_layer.weight",
          DTensor{float_tensor({height, 2}, w), rows({3, 2})}},
         {std::string(kQ) + "lora_A.default.weight", DTensor{float_tensor({1, 1}, a), columns}},
         {std::string(kQ) + "lora_B.default.weight",
          DTensor{float_tensor({height, 1}, b), rows({3, 1})}}});
  };
  testing::write_ranks(dir_ / "ckpt", {rank({1, 2, 3, 4}, {1}, {1, 2}), rank({5, 6}, {3}, {3})});
  options_.lora.alpha = 0.5;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("m.q.weight"), (std::vector<float>{1.5f, 3.5f, 4, 7, 6.5f, 10.5f}));
}

TEST_F(LoraTest, TheTrainedCopyWins) {
  write(make_dict({{"score.original_module.weight", float_tensor({1}, {1})},
                   {"score.modules_to_save.default.weight", float_tensor({1}, {2})},
                   {"score.modules_to_save.other.weight", float_tensor({1}, {3})},
                   {"m.q.base_layer.weight", float_tensor({1, 1}, {5})},
                   {"m.q.lora_A.default.weight", float_tensor({1, 1}, {1})},
                   {"m.q.lora_B.default.weight", float_tensor({1, 1}, {1})}}));
  EXPECT_THAT(merge(),
              Fails(ErrorCode::kInvalidArgument, "several adapters; --adapter chooses one"));
  options_.lora.adapter = "default";
  options_.lora.mode = LoraMode::kAdapter;
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("score.weight"), std::vector<float>{2});
  EXPECT_EQ(
      merged<float>("base_model.model.score.weight", "lora_adapter/adapter_model.safetensors"),
      std::vector<float>{2});
}

TEST_F(LoraTest, WithoutAnAdapterNothingChanges) {
  write(make_dict({{"m.q.weight", float_tensor({1}, {1})}}));
  options_.lora = {};
  const auto apart = take_apart();
  ASSERT_THAT(apart, IsOk());
  EXPECT_EQ(apart->model->tensors[0].name, "m.q.weight");
  EXPECT_FALSE(apart->summary);
  EXPECT_TRUE(apart->adapter.empty());
}

/// Two modules of one last name, of which one has an adapter.
TEST_F(LoraTest, TargetsAreNamedInFullWhereTheLastPartNamesOthers) {
  Value root = small();
  root.get_if<Dict>()->items.emplace_back(Value(std::string("base_model.model.n.q.weight")),
                                          float_tensor({1}, {1}));
  write(root);
  options_.lora.mode = LoraMode::kAdapter;
  EXPECT_EQ(take_apart().value().summary->targets, std::vector<std::string>{"m.q"});
  write(small());
  EXPECT_EQ(take_apart().value().summary->targets, std::vector<std::string>{"q"});
}

TEST_F(LoraTest, ASquareWeightIsTurnedWhereModelOrFileSaysSo) {
  const auto square = [](const std::string& module) {
    return make_dict({{module + ".base_layer.weight", float_tensor({2, 2}, {0, 0, 0, 0})},
                      {module + ".lora_A.default.weight", float_tensor({1, 2}, {1, 2})},
                      {module + ".lora_B.default.weight", float_tensor({2, 1}, {1, 10})}});
  };
  const std::vector<float> straight = {1, 2, 10, 20}, turned = {1, 10, 2, 20};
  options_.lora.alpha = 1;
  options_.existing = ExistingTarget::kReplace;
  write(square("h.0.q_proj"));
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("h.0.q_proj.weight"), straight);
  write_adapter_config(R"({"r": 1, "lora_alpha": 1, "fan_in_fan_out": true})");
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("h.0.q_proj.weight"), turned);
  std::filesystem::remove_all(dir_ / "ckpt/lora_adapter");
  write(square("h.0.attn.c_proj"));
  EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete, "cannot be told whether this square weight"));
  for (const auto& [type, expected] :
       {std::pair("gpt2", turned), std::pair("gpt_bigcode", straight)}) {
    testing::write_file(dir_ / "ckpt/huggingface/config.json",
                        std::string(R"({"model_type": ")") + type + "\"}");
    ASSERT_THAT(merge(), IsOk());
    EXPECT_EQ(merged<float>("h.0.attn.c_proj.weight"), expected) << type;
  }
}

/// peft's fan_in_fan_out is what the last module that it wrapped needs: here the decoder's.
TEST_F(LoraTest, OfAnEncoderAndADecoderEachIsTurnedAsItsModelTypeSays) {
  Value root = make_dict({});
  for (const std::string module : {"encoder.layer.0.q_proj", "decoder.h.0.attn.c_proj",
                                   "encoder.h.0.c_proj", "decoder.lm_head"}) {
    auto& items = root.get_if<Dict>()->items;
    items.emplace_back(Value(module + ".base_layer.weight"), float_tensor({2, 2}, {0, 0, 0, 0}));
    items.emplace_back(Value(module + ".lora_A.default.weight"), float_tensor({1, 2}, {1, 2}));
    items.emplace_back(Value(module + ".lora_B.default.weight"), float_tensor({2, 1}, {1, 10}));
  }
  write(root);
  testing::write_file(dir_ / "ckpt/huggingface/config.json",
                      R"({"model_type": "encoder-decoder", "encoder": {"model_type": "gpt_neo"},
                          "decoder": {"model_type": "gpt2"}})");
  const std::vector<float> straight = {1, 2, 10, 20}, turned = {1, 10, 2, 20};
  options_.existing = ExistingTarget::kReplace;
  for (const char* flag : {"true", "false"}) {
    write_adapter_config(std::string(R"({"r": 1, "lora_alpha": 1, "fan_in_fan_out": )") + flag +
                         "}");
    ASSERT_THAT(merge(), IsOk());
    EXPECT_EQ(merged<float>("encoder.layer.0.q_proj.weight"), straight) << flag;
    EXPECT_EQ(merged<float>("decoder.h.0.attn.c_proj.weight"), turned) << flag;
    EXPECT_EQ(merged<float>("encoder.h.0.c_proj.weight"), straight) << flag;
    EXPECT_EQ(merged<float>("decoder.lm_head.weight"), straight) << flag;
  }
}

TEST_F(LoraTest, AFlagThatMayBeOfOtherModulesDoesNotTurnAWeight) {
  const auto two = [](const std::string& square, const std::string& other) {
    return make_dict({{square + ".base_layer.weight", float_tensor({2, 2}, {0, 0, 0, 0})},
                      {square + ".lora_A.default.weight", float_tensor({1, 2}, {1, 2})},
                      {square + ".lora_B.default.weight", float_tensor({2, 1}, {1, 10})},
                      {other + ".base_layer.weight", float_tensor({2, 1}, {0, 0})},
                      {other + ".lora_A.default.weight", float_tensor({1, 1}, {1})},
                      {other + ".lora_B.default.weight", float_tensor({2, 1}, {1, 10})}});
  };
  constexpr const char* kText = "fan_in_fan_out in adapter_config.json may be of other modules";
  options_.existing = ExistingTarget::kReplace;
  write_adapter_config(R"({"r": 1, "lora_alpha": 1, "fan_in_fan_out": true})");
  write(two("h.0.q_proj", "h.0.c_proj"));
  EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete, kText));
  write(two("h.0.c_proj", "h.0.q_proj"));
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("h.0.c_proj.weight"), (std::vector<float>{1, 10, 2, 20}));
  write_adapter_config(R"({"r": 1, "lora_alpha": 1, "fan_in_fan_out": false})");
  EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete, kText));
  // transformers has no other models with Conv1D than those that are known by their type.
  testing::write_file(dir_ / "ckpt/huggingface/config.json", R"({"model_type": "gpt_bigcode"})");
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("h.0.c_proj.weight"), (std::vector<float>{1, 2, 10, 20}));
}

TEST_F(LoraTest, FilesThatTellAnotherScaleAreRefused) {
  write(small());
  write_adapter_config(R"({"r": 1, "lora_alpha": 2})");
  const std::string other = dir_ / "ckpt/adapter_config.json";
  testing::write_file(other, R"({"r": 1, "lora_alpha": 2, "peft_version": "0.18.0"})");
  EXPECT_THAT(merge(), IsOk());
  options_.existing = ExistingTarget::kReplace;
  for (const auto& [member, value] :
       {std::pair("use_rslora", "true"), std::pair("use_dora", "true"),
        std::pair("fan_in_fan_out", "true"), std::pair("rank_pattern", R"({"q": 1})"),
        std::pair("alpha_pattern", R"({"q": 8})"), std::pair("bias", R"("all")"),
        std::pair("target_parameters", R"(["m.q"])"),
        std::pair("init_lora_weights", R"("pissa")")}) {
    testing::write_file(
        other, std::string(R"({"r": 1, "lora_alpha": 2, ")") + member + "\": " + value + "}");
    EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete,
                               std::string("another adapter_config.json disagrees on ") + member));
  }
  testing::write_file(other, R"({"r": 1, "lora_alpha": 2, "use_qalora": true})");
  EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete, "disagrees on other options"));
}

/// Without it nothing would say that rsLoRA was trained.
TEST_F(LoraTest, AFileThatCannotBeReadIsNotTakenForAMissingOne) {
  write(small());
  std::filesystem::create_directories(dir_ / "ckpt/lora_adapter");
  std::filesystem::create_symlink("adapter_config.json",
                                  (dir_ / "ckpt/lora_adapter/adapter_config.json"));
  options_.lora.alpha = 1;
  EXPECT_THAT(merge(), Fails(ErrorCode::kIo, "adapter_config.json"));
}

TEST_F(LoraTest, ATiedEmbeddingThatIsFoldedDiffersFromItsAlias) {
  const Tensor weight = float_tensor({2, 1}, {1, 2});
  write(make_dict({{"model.embed_tokens.base_layer.weight", weight},
                   {"model.embed_tokens.lora_embedding_A.default", float_tensor({1, 2}, {1, 1})},
                   {"model.embed_tokens.lora_embedding_B.default", float_tensor({1, 1}, {1})},
                   {"lm_head.weight", weight}}));
  testing::write_file(dir_ / "ckpt/huggingface/config.json",
                      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
                          "tie_word_embeddings": true})");
  options_.lora.alpha = 1;
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(merged<float>("model.embed_tokens.weight"), (std::vector<float>{2, 3}));
  EXPECT_EQ(merged<float>("lm_head.weight"), (std::vector<float>{1, 2}));
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_NE(report->warnings[0].find("but they differ: both are kept"), std::string::npos);
}

/// transformers saves one tensor of the two; peft's forward leaves lm_head as it was.
TEST_F(LoraTest, ATiedHeadThatABaseModelLeavesOutStaysTheOriginal) {
  write_base(make_dict({{"model.embed_tokens.weight", float_tensor({2, 1}, {1, 2})}}),
             R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
                 "tie_word_embeddings": true})");
  options_.existing = ExistingTarget::kReplace;
  options_.lora.alpha = 1;
  write(make_dict({{"model.embed_tokens.lora_embedding_A.default", float_tensor({1, 2}, {1, 1})},
                   {"model.embed_tokens.lora_embedding_B.default", float_tensor({1, 1}, {1})}}));
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(merged<float>("model.embed_tokens.weight"), (std::vector<float>{2, 3}));
  EXPECT_EQ(merged<float>("lm_head.weight"), (std::vector<float>{1, 2}));
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_NE(report->warnings[0].find("but they differ: both are kept"), std::string::npos);
  write(make_dict({{"lm_head.lora_A.default.weight", float_tensor({1, 1}, {1})},
                   {"lm_head.lora_B.default.weight", float_tensor({2, 1}, {1, 1})}}));
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>("model.embed_tokens.weight"), (std::vector<float>{1, 2}));
  EXPECT_EQ(merged<float>("lm_head.weight"), (std::vector<float>{2, 3}));
}

TEST_F(LoraTest, BiasesTrainedWithTheAdapterStandBesideIt) {
  const std::string bias = std::string(kQ) + "base_layer.bias";
  const std::string other = "base_model.model.n.bias";
  Value root = small();
  root.get_if<Dict>()->items.emplace_back(Value(bias), float_tensor({3}, {7, 8, 9}));
  root.get_if<Dict>()->items.emplace_back(Value(other), float_tensor({1}, {5}));
  write(root);
  options_.lora.mode = LoraMode::kAdapterOnly;
  const auto biases = [&](const std::string& which) {
    write_adapter_config(R"({"r": 1, "lora_alpha": 1, "bias": ")" + which + "\"}");
    const LoraCatalog apart = take_apart().value();
    std::vector<std::string> names;
    for (const CatalogTensor& tensor : apart.adapter)
      if (tensor.name.ends_with(".bias")) names.push_back(tensor.name);
    return names;
  };
  EXPECT_EQ(biases("none"), std::vector<std::string>{});
  EXPECT_EQ(biases("lora_only"), std::vector<std::string>{bias});
  EXPECT_EQ(biases("all"), (std::vector<std::string>{bias, other}));
  ASSERT_THAT(merge(), IsOk());
  EXPECT_EQ(merged<float>(bias, "lora_adapter/adapter_model.safetensors"),
            (std::vector<float>{7, 8, 9}));
}

/// As peft's own state dict of an adapter has them: a model of biases alone is none.
TEST_F(LoraTest, AnAdapterWithBiasesHasNoBaseModel) {
  Value root = small();
  root.get_if<Dict>()->items[0] = {Value(std::string(kQ) + "base_layer.bias"),
                                   Value(float_tensor({3}, {7, 8, 9}))};
  write(root);
  write_adapter_config(R"({"r": 1, "lora_alpha": 1, "bias": "lora_only"})");
  EXPECT_THAT(merge(), Fails(ErrorCode::kUnsupported, "but no base weights"));
  options_.lora.mode = LoraMode::kAdapter;
  const LoraCatalog apart = take_apart().value();
  EXPECT_TRUE(apart.model->tensors.empty());
  EXPECT_EQ(apart.adapter.size(), 3u);
  EXPECT_EQ(apart.summary->mode, LoraMode::kAdapterOnly);
}

/// LoHa, OFT, IA3 and LN tuning, as peft 0.21 names them.
TEST_F(LoraTest, AdaptersOfOtherKindsAreRefused) {
  for (const char* part : {"hada_w1_a.default", "oft_R.default.weight", "ia3_l.default",
                           "ln_tuning_layers.default.weight"}) {
    write(make_dict({q("base_layer.weight", float_tensor({1, 2}, {1, 2})),
                     q(part, float_tensor({1, 2}, {1, 2}))}));
    for (const LoraMode mode : {LoraMode::kAdapter, LoraMode::kMerge}) {
      options_.lora.mode = mode;
      EXPECT_THAT(merge(), Fails(ErrorCode::kUnsupported, "another kind than LoRA: tensor '"))
          << part;
    }
    // The adapter alone, as it is trained and saved.
    options_.lora.mode = LoraMode::kAdapter;
    write(make_dict({{"base_model.model.m.q." + std::string(part), float_tensor({1, 2}, {1, 2})}}));
    EXPECT_THAT(merge(), Fails(ErrorCode::kUnsupported, "another kind than LoRA: tensor '"))
        << part;
  }
}

TEST_F(LoraTest, TrainedBiasesThatTheShardsLackAreNotTheBaseModels) {
  write(make_dict({q("lora_A.default.weight", float_tensor({1, 2}, {1, 3})),
                   q("lora_B.default.weight", float_tensor({3, 1}, {1, 2, 3}))}));
  write_adapter_config(R"({"r": 1, "lora_alpha": 1, "bias": "lora_only"})");
  write_base(make_dict({{"m.q.weight", float_tensor({3, 2}, {1, 2, 3, 4, 5, 6})},
                        {"m.q.bias", float_tensor({3}, {0, 0, 0})}}),
             "{}");
  EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete,
                             "biases were trained with the adapter, and the checkpoint does not "
                             "hold them: tensor 'm.q.bias'"));
  options_.lora.mode = LoraMode::kAdapter;
  const auto report = merge();
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->warnings,
              ::testing::Contains(::testing::HasSubstr("lora_adapter/ lacks them")));
}

struct Refusal {
  const char* what;
  Value root;
  ErrorCode code;
  const char* text;
};

TEST_F(LoraTest, WhatDoesNotFitIsRefused) {
  const Tensor a = float_tensor({1, 2}, {1, 3}), b = float_tensor({3, 1}, {1, 2, 3});
  const Tensor w = float_tensor({3, 2}, {1, 2, 3, 4, 5, 6});
  const Refusal refusals[] = {
      {"no B", make_dict({q("base_layer.weight", w), q("lora_A.default.weight", a)}),
       ErrorCode::kIncomplete, "only one of lora_A and lora_B: tensor 'm.q'"},
      {"ranks",
       make_dict({q("base_layer.weight", w),
                  q("lora_A.default.weight", float_tensor({2, 2}, {1, 1, 1, 1})),
                  q("lora_B.default.weight", b)}),
       ErrorCode::kIncomplete, "do not fit each other: tensor 'm.q', found A [2, 2], B [3, 1]"},
      {"shape",
       make_dict({q("base_layer.weight", float_tensor({2, 2}, {1, 2, 3, 4})),
                  q("lora_A.default.weight", a), q("lora_B.default.weight", b)}),
       ErrorCode::kIncomplete, "do not fit the weight: tensor 'm.q.weight'"},
      {"no weight",
       make_dict({{"m.k.weight", w}, q("lora_A.default.weight", a), q("lora_B.default.weight", b)}),
       ErrorCode::kIncomplete, "no base weight to fold an adapter into: tensor 'm.q'"},
      {"bias",
       make_dict({q("base_layer.weight", w), q("lora_A.default.weight", a),
                  q("lora_B.default.weight", b),
                  q("lora_B.default.bias", float_tensor({3}, {1, 2, 3}))}),
       ErrorCode::kUnsupported, "a bias of lora_B cannot be folded"},
      {"integers",
       make_dict({q("base_layer.weight",
                    make_tensor<std::int32_t>(DType::kInt32, {3, 2}, {1, 2, 3, 4, 5, 6})),
                  q("lora_A.default.weight", a), q("lora_B.default.weight", b)}),
       ErrorCode::kUnsupported, "LoRA of a dtype that is not folded: tensor 'm.q.weight'"},
      {"unknown", make_dict({q("base_layer.weight", w), q("lora_C.default.weight", a)}),
       ErrorCode::kUnsupported, "adapter of unknown form"},
      {"two of one name",
       make_dict({q("base_layer.weight", w),
                  {"m.q.weight", w},
                  q("lora_A.default.weight", a),
                  q("lora_B.default.weight", b)}),
       ErrorCode::kCorrupt, "two tensors get one name"},
      {"one tensor twice",
       make_dict({q("base_layer.weight", w),
                  q("lora_A.default.weight", a),
                  q("lora_B.default.weight", b),
                  {"m.q.lora_A.default.weight", a}}),
       ErrorCode::kCorrupt, "there twice, under two names: tensor 'm.q.lora_A.default.weight'"},
      {"two kinds",
       make_dict({q("base_layer.weight", w), q("lora_A.default.weight", a),
                  q("lora_embedding_A.default", a), q("lora_embedding_B.default", b)}),
       ErrorCode::kIncomplete, "lora_embedding_B beside lora_A or lora_B: tensor 'm.q'"},
      {"adapter alone", make_dict({q("lora_A.default.weight", a), q("lora_B.default.weight", b)}),
       ErrorCode::kIncomplete, "--base_model_dir"},
  };
  options_.lora.alpha = 1;
  for (const Refusal& refusal : refusals) {
    write(refusal.root);
    EXPECT_THAT(merge(), Fails(refusal.code, refusal.text)) << refusal.what;
  }
}

TEST_F(LoraTest, TrainedCopiesAreNoAdapterToWriteAlone) {
  write(make_dict({{"score.original_module.weight", float_tensor({1}, {1})},
                   {"score.modules_to_save.default.weight", float_tensor({1}, {2})}}));
  options_.lora.mode = LoraMode::kAdapterOnly;
  EXPECT_THAT(merge(), Fails(ErrorCode::kInvalidArgument,
                             "there is no adapter to write alone: the checkpoint holds trained "
                             "copies of modules, and no LoRA: file '"));
}

// PiSSA takes its factors out of the weights.
TEST_F(LoraTest, AnAdapterThatChangedTheBaseWeightsIsNotFoldedIntoTheOriginalOnes) {
  write(make_dict({q("lora_A.default.weight", float_tensor({1, 2}, {1, 3})),
                   q("lora_B.default.weight", float_tensor({3, 1}, {1, 2, 3}))}));
  write_base(make_dict({{"m.q.weight", float_tensor({3, 2}, {1, 2, 3, 4, 5, 6})}}), "{}");
  write_adapter_config(R"({"r": 1, "lora_alpha": 1, "init_lora_weights": "pissa"})");
  EXPECT_THAT(merge(), Fails(ErrorCode::kUnsupported,
                             "the initialization of this adapter changed the base weights, and the "
                             "checkpoint does not hold them: expected init_lora_weights that "
                             "leaves them: true, gaussian, eva, mica, orthogonal, found pissa"));
  options_.existing = ExistingTarget::kReplace;
  for (const std::string name : {"gaussian", "eva", "mica", "orthogonal"}) {
    write_adapter_config(R"({"r": 1, "lora_alpha": 1, "init_lora_weights": ")" + name + "\"}");
    EXPECT_THAT(merge(), IsOk()) << name;
  }
}

TEST_F(LoraTest, ABaseModelThatHoldsTheAdapterIsRefused) {
  const Value adapter = make_dict({q("lora_A.default.weight", float_tensor({1, 2}, {1, 3})),
                                   q("lora_B.default.weight", float_tensor({3, 1}, {1, 2, 3}))});
  write(adapter);
  write_base(adapter, "{}");
  EXPECT_THAT(merge(), Fails(ErrorCode::kCorrupt,
                             "the base model holds a tensor of the adapter, too: tensor "
                             "'base_model.model.m.q.lora_A.default.weight', file '"));
}

// peft would load such an adapter without an error, and without effect.
TEST_F(LoraTest, ABaseModelThatTheAdapterDoesNotFitIsToldOrRefused) {
  write(make_dict({q("lora_A.default.weight", float_tensor({1, 2}, {1, 3})),
                   q("lora_B.default.weight", float_tensor({3, 1}, {1, 2, 3}))}));
  options_.base_model_dir = dir_ / "base";
  options_.lora.alpha = 1;
  options_.existing = ExistingTarget::kReplace;
  const auto write_base = [this](const std::string& name, Tensor weight) {
    std::filesystem::remove_all(dir_ / "base");
    testing::write_ranks(dir_ / "base", {make_dict({{name, std::move(weight)}})});
    std::filesystem::rename(dir_ / "base/model_world_size_1_rank_0.pt",
                            dir_ / "base/pytorch_model.bin");
  };
  for (const LoraMode mode : {LoraMode::kAdapter, LoraMode::kAdapterOnly, LoraMode::kMerge}) {
    options_.lora.mode = mode;
    write_base("m.q.weight", float_tensor({3, 1}, {1, 2, 3}));
    EXPECT_THAT(merge(), Fails(ErrorCode::kIncomplete,
                               "of the base model does not fit the adapter: tensor 'm.q.weight', "
                               "expected [3, 2], found [3, 1]"));
    options_.strict_names = true;
    write_base("m.q.weight", float_tensor({3, 2}, {1, 2, 3, 4, 5, 6}));
    EXPECT_THAT(merge(), IsOk());
    write_base("n.q.weight", float_tensor({3, 2}, {1, 2, 3, 4, 5, 6}));
    EXPECT_THAT(merge(),
                Fails(ErrorCode::kIncomplete, "lacks modules of the adapter: tensor 'm.q'"));
    options_.strict_names = false;
    if (mode == LoraMode::kMerge) continue;  // there is nothing to fold into
    const auto report = merge();
    ASSERT_THAT(report, IsOk());
    ASSERT_FALSE(report->warnings.empty());
    EXPECT_NE(report->warnings[0].find("lacks 1 of 1 modules of the adapter: m.q"),
              std::string::npos);
  }
}

TEST(SaveLoraAdapter, IsTheLoraCatalogOfARealCheckpoint) {
  const std::string path = testing::source_path("tests/fixtures/torch-2.13.0/lora_bf16_w2");
  auto folder = discover_checkpoint(posix_file_system(), path);
  const MergeSource source =
      open_merge_source(posix_file_system(), *std::move(folder), "", PlainTensors::kAuto).value();
  const LoraCatalog apart = take_lora_apart(posix_file_system(), source, {}).value();
  EXPECT_EQ(apart.adapter.size(), 8u);
  EXPECT_EQ(apart.model->tensors.size(), 27u);
  EXPECT_EQ(apart.adapter[0].name,
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
  EXPECT_EQ(
      to_string(*apart.summary),
      "'default': 4 modules of rank 4, lora_alpha 16 (lora_train_meta.json), on q_proj, v_proj");
}

}  // namespace
}  // namespace shardkit
