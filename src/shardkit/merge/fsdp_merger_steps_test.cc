// Tests of each step of FSDPModelMerger on checkpoints that real PyTorch wrote, against the tensors
// that went in.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>

#include "shardkit/merge/fsdp_merger.h"
#include "shardkit/merge/rank_files_test_util.h"
#include "shardkit/safetensors/model_reader.h"
#include "shardkit/safetensors/reader.h"
#include "shardkit/state/memory.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/temp_dir.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::Pair;

std::string fixture(const std::string& name) {
  return testing::source_path("tests/fixtures/" + name);
}

MergeOptions keep(const std::string& name) {
  MergeOptions options;
  options.local_dir = fixture(name);
  options.dtype.kind = hf::DTypeChoice::Kind::kKeep;
  options.transfer.threads = 1;
  return options;
}

/// The tensors that went into a fixture, as PyTorch and safetensors wrote them down.
Dict expected_of(const std::string& name) {
  return safetensors::read_safetensors(posix_file_system(), fixture(name) + "/expected.safetensors")
      .value();
}

std::string bytes_of(const Tensor& tensor) {
  const auto size = static_cast<std::size_t>(tensor.bytes());
  if (const FileRange* range = tensor.storage->file())
    return testing::read_file(*range->path).substr(range->offset, size);
  return {reinterpret_cast<const char*>(first_element(tensor).value()), size};
}

/// name -> what differs.
std::map<std::string, std::string> by_name(const std::vector<Difference>& differences) {
  std::map<std::string, std::string> result;
  for (const Difference& difference : differences)
    result[to_string(difference.path)] = difference.what;
  return result;
}

constexpr const char* kLayouts[] = {
    "torch-2.4.1/fsdp2_fp32_w4",
    "torch-2.6.0/hsdp_tp_fp32_w8",
    "torch-2.11.0/fsdp1_shardedtensor_fp32_w4",
    "torch-2.13.0/fsdp2_shard1_w2",
    "torch-2.13.0/placements_fp32_w4",
    "torch-2.13.0/plain_fp32_w2",
    "torch-2.13.0/tp_uneven_fp32_w12",
    "torch-2.13.0/views_w2",
    "torch-2.13.0/dtypes_w2",
    "torch-2.13.0/buffers_mixed_w4",
};

TEST(GetWorldSize, IsThatOfTheCheckpoint) {
  FSDPModelMerger merger(posix_file_system(), keep("torch-2.13.0/tp_uneven_fp32_w12"));
  const auto size = merger.get_world_size();
  ASSERT_THAT(size, IsOk());
  EXPECT_EQ(*size, 12);
  FSDPModelMerger nowhere(posix_file_system(), keep("torch-2.13.0/fsdp2_fp32_w4/huggingface"));
  EXPECT_THAT(nowhere.get_world_size(), Fails(ErrorCode::kNotFound, "fsdp2_fp32_w4/huggingface"));
}

TEST(LoadRankZeroStateDict, HoldsWhatRankZeroSavedAndNoBytes) {
  FSDPModelMerger merger(posix_file_system(), keep("torch-2.13.0/fsdp2_fp32_w4"));
  const auto state = merger.load_rank_zero_state_dict();
  ASSERT_THAT(state, IsOk());
  const auto* dict = state->get_if<Dict>();
  ASSERT_NE(dict, nullptr);
  EXPECT_EQ(dict->items.size(), expected_of("torch-2.13.0/fsdp2_fp32_w4").items.size());
  const auto* embedding = find(*dict, "model.embed_tokens.weight")->get_if<DTensor>();
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->local.shape, (Dims{25, 24}));
  EXPECT_EQ(embedding->sharding->shape, (Dims{99, 24}));
  EXPECT_NE(embedding->local.storage->file(), nullptr);
}

TEST(LoadAndMergeStateDicts, JoinsEveryTensorAndReadsNone) {
  for (const char* name : kLayouts) {
    FSDPModelMerger merger(posix_file_system(), keep(name));
    const auto catalog = merger.load_and_merge_state_dicts();
    ASSERT_THAT(catalog, IsOk()) << name;
    const Dict expected = expected_of(name);
    EXPECT_EQ((*catalog)->tensors.size(), expected.items.size()) << name;
    for (const CatalogTensor& tensor : (*catalog)->tensors) {
      const Value* value = find(expected, tensor.name);
      ASSERT_NE(value, nullptr) << name << " " << tensor.name;
      EXPECT_EQ(tensor.shape, value->get_if<Tensor>()->shape) << name << " " << tensor.name;
      EXPECT_EQ(tensor.dtype, value->get_if<Tensor>()->dtype) << name << " " << tensor.name;
      for (const Piece& piece : tensor.pieces) EXPECT_NE(piece.storage->file(), nullptr);
    }
    EXPECT_EQ(*catalog, *merger.load_and_merge_state_dicts()) << "joined once";
  }
}

TEST(MergeByPlacement, GivesTheTensorThatWentInForEveryLayout) {
  for (const char* name : kLayouts) {
    FSDPModelMerger merger(posix_file_system(), keep(name));
    for (const auto& [key, value] : expected_of(name).items) {
      const std::string& tensor_name = *key.get_if<std::string>();
      const Tensor& expected = *value.get_if<Tensor>();
      const auto merged = merger.merge_by_placement(tensor_name);
      ASSERT_THAT(merged, IsOk()) << name << " " << tensor_name;
      EXPECT_EQ(merged->shape, expected.shape) << name << " " << tensor_name;
      EXPECT_EQ(merged->dtype, expected.dtype) << name << " " << tensor_name;
      EXPECT_TRUE(is_contiguous(*merged));
      EXPECT_NE(merged->storage->memory(), nullptr);
      EXPECT_TRUE(bytes_of(*merged) == bytes_of(expected)) << name << " " << tensor_name;
    }
  }
}

TEST(MergeByPlacement, RefusesWhatAMergeRefuses) {
  FSDPModelMerger merger(posix_file_system(), keep("torch-2.13.0/fsdp2_fp32_w4"));
  EXPECT_THAT(merger.merge_by_placement("model.norm"),
              Fails(ErrorCode::kNotFound, "holds no such tensor"));
  const testing::TempDir dir;
  const Value state = testing::make_dict({{"w", testing::float_tensor({2}, {1, 2})}});
  testing::write_ranks(dir / "ckpt", {state, state});
  MergeOptions options = keep("");
  options.local_dir = dir / "ckpt";
  EXPECT_THAT(FSDPModelMerger(posix_file_system(), options).merge_by_placement("w"),
              Fails(ErrorCode::kIncomplete, "--plain-tensors"));
  options.plain = PlainTensors::kReplicate;
  const auto merged = FSDPModelMerger(posix_file_system(), options).merge_by_placement("w");
  ASSERT_THAT(merged, IsOk());
  EXPECT_EQ(merged->shape, (Dims{2}));
}

TEST(MergeByPlacement, CastsByDefaultAndHasTiedTensors) {
  MergeOptions options = keep("torch-2.13.0/fsdp2_fp32_w4");
  options.dtype = {};
  FSDPModelMerger merger(posix_file_system(), options);
  const auto cast = merger.merge_by_placement("model.norm.weight");
  ASSERT_THAT(cast, IsOk());
  EXPECT_EQ(cast->dtype, DType::kBFloat16);
  FSDPModelMerger tied(posix_file_system(), keep("torch-2.13.0/fsdp2_bf16_tied_w2"));
  EXPECT_EQ(tied.decide().value().dropped_ties, std::vector<std::string>{"lm_head.weight"});
  EXPECT_TRUE(bytes_of(tied.merge_by_placement("lm_head.weight").value()) ==
              bytes_of(tied.merge_by_placement("model.embed_tokens.weight").value()));
}

TEST(MergeByPlacement, ScalesOfEightBitFloatsAreNotRounded) {
  const testing::TempDir dir;
  const Value weight = testing::make_tensor<std::uint8_t>(DType::kFloat8E4M3FN, {2}, {1, 2});
  const Value state = testing::make_dict(
      {{"w", weight}, {"w_scale_inv", testing::float_tensor({1}, {1.0009765625f})}});
  testing::write_ranks(dir / "ckpt", {state});
  MergeOptions options;
  options.local_dir = dir / "ckpt";
  const auto scale =
      FSDPModelMerger(posix_file_system(), options).merge_by_placement("w_scale_inv");
  ASSERT_THAT(scale, IsOk());
  EXPECT_EQ(scale->dtype, DType::kFloat32);
  EXPECT_EQ(testing::stored_floats(*scale), std::vector<float>{1.0009765625f});
}

TEST(ValidateStateDict, FindsNoDifferenceFromWhatWentIn) {
  for (const char* name : kLayouts) {
    FSDPModelMerger merger(posix_file_system(), keep(name));
    const auto differences = merger.validate_state_dict(expected_of(name));
    ASSERT_THAT(differences, IsOk()) << name;
    EXPECT_THAT(by_name(*differences), IsEmpty()) << name;
  }
}

TEST(ValidateStateDict, ATiedAliasMayBeInTheReferenceOrNot) {
  const std::string name = "torch-2.13.0/fsdp2_bf16_tied_w2";
  Dict reference = expected_of(name);
  FSDPModelMerger merger(posix_file_system(), keep(name));
  EXPECT_THAT(merger.validate_state_dict(reference).value(), IsEmpty());
  ASSERT_EQ(std::erase_if(reference.items,
                          [](const auto& item) {
                            return *item.first.template get_if<std::string>() == "lm_head.weight";
                          }),
            1u);
  EXPECT_THAT(merger.validate_state_dict(reference).value(), IsEmpty());
}

TEST(ValidateStateDict, NamesEveryTensorThatDiffers) {
  const std::string name = "torch-2.13.0/fsdp2_fp32_w4";
  FSDPModelMerger merger(posix_file_system(), keep(name));
  Dict reference = expected_of(name);
  const auto entry = [&reference](std::string_view key) -> Value& {
    return std::find_if(reference.items.begin(), reference.items.end(),
                        [key](const auto& item) {
                          return *item.first.template get_if<std::string>() == key;
                        })
        ->second;
  };
  // One element of another value, transposed memory of the same values, another shape and dtype.
  std::string bytes = bytes_of(*entry("model.embed_tokens.weight").get_if<Tensor>());
  std::vector<float> embedding(bytes.size() / 4);
  std::memcpy(embedding.data(), bytes.data(), bytes.size());
  embedding[97 * 24 + 5] += 1;
  entry("model.embed_tokens.weight") = testing::float_tensor({99, 24}, embedding);
  bytes = bytes_of(*entry("lm_head.weight").get_if<Tensor>());
  std::vector<float> head(bytes.size() / 4);
  for (std::size_t i = 0; i < head.size(); ++i)
    std::memcpy(&head[i % 24 * 99 + i / 24], bytes.data() + i * 4, 4);
  Tensor by_columns = testing::float_tensor({99, 24}, head);
  by_columns.strides = {1, 99};
  entry("lm_head.weight") = by_columns;
  entry("model.norm.weight").get_if<Tensor>()->shape = {2, 12};
  entry("model.norm.weight").get_if<Tensor>()->strides = {12, 1};
  entry("model.layers.0.input_layernorm.weight").get_if<Tensor>()->dtype = DType::kInt32;
  std::erase_if(reference.items, [](const auto& item) {
    return *item.first.template get_if<std::string>() == "model.layers.1.mlp.up_proj.weight";
  });
  reference.items.emplace_back(Value("more.weight"), testing::float_tensor({1}, {1}));
  reference.items.emplace_back(Value("_extra_state"), Value(Dict{}));

  const auto differences = merger.validate_state_dict(reference);
  ASSERT_THAT(differences, IsOk());
  EXPECT_THAT(by_name(*differences),
              ElementsAre(Pair("model.embed_tokens.weight", "other bytes at [97, 5]"),
                          Pair("model.layers.0.input_layernorm.weight", "float32 against int32"),
                          Pair("model.layers.1.mlp.up_proj.weight", "not in the reference"),
                          Pair("model.norm.weight", "shape [24] against [2, 12]"),
                          Pair("more.weight", "only in the reference")));
}

TEST(ValidateStateDict, RefusesAReferenceThatIsNone) {
  FSDPModelMerger merger(posix_file_system(), keep("torch-2.13.0/fsdp2_fp32_w4"));
  const Value rank_zero = merger.load_rank_zero_state_dict().value();
  EXPECT_THAT(merger.validate_state_dict(*rank_zero.get_if<Dict>()),
              Fails(ErrorCode::kInvalidArgument, "a reference holds whole tensors"));
  Tensor tensor = testing::float_tensor({24}, std::vector<float>(24));
  tensor.offset = 1;
  const auto with = [](const Tensor& norm) {
    return testing::make_dict({{"model.norm.weight", norm}});
  };
  EXPECT_THAT(merger.validate_state_dict(with(tensor)),
              Fails(ErrorCode::kCorrupt, "tensor 'model.norm.weight'"));
  tensor.storage = std::make_shared<const Storage>(NoBytes{}, 100);
  EXPECT_THAT(merger.validate_state_dict(with(tensor)),
              Fails(ErrorCode::kInvalidArgument, "no bytes (meta)"));
}

TEST(SaveHfModelAndTokenizer, WritesWhatWasDecidedAndValidates) {
  const testing::TempDir dir;
  MergeOptions options;  // bfloat16
  options.local_dir = fixture("torch-2.13.0/hsdp_tp_fp32_w8");
  options.target_dir = dir / "out";
  options.max_shard_bytes = 20000;
  FSDPModelMerger merger(posix_file_system(), options);
  const auto decision = merger.decide();
  ASSERT_THAT(decision, IsOk());
  const auto report = merger.save_hf_model_and_tokenizer(*decision);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->weights.size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(dir / "out/config.json"));
  const auto model = safetensors::read_model(posix_file_system(), dir / "out");
  ASSERT_THAT(model, IsOk());
  EXPECT_THAT(merger.validate_state_dict(*model).value(), IsEmpty());

  const Tensor& norm = *find(*model, "model.norm.weight")->get_if<Tensor>();
  const FileRange& range = *norm.storage->file();
  std::string content = testing::read_file(*range.path);
  content[range.offset + 2 * 7] = static_cast<char>(content[range.offset + 2 * 7] ^ 1);
  testing::write_file(*range.path, content);
  EXPECT_THAT(by_name(merger.validate_state_dict(*model).value()),
              ElementsAre(Pair("model.norm.weight", "other bytes at [7]")));
}

TEST(SaveHfModelAndTokenizer, TakesItsOwnDecisionAlone) {
  const testing::TempDir dir;
  MergeOptions options = keep("torch-2.13.0/fsdp2_bf16_tied_w2");
  options.target_dir = dir / "out";
  FSDPModelMerger merger(posix_file_system(), options);
  FSDPModelMerger other(posix_file_system(), options);
  EXPECT_THAT(merger.save_hf_model_and_tokenizer(other.decide().value()),
              Fails(ErrorCode::kInvalidArgument, "not of decide()"));
  OutputDecision decision = merger.decide().value();
  decision.bytes = TensorBytes::kUnread;
  EXPECT_THAT(merger.save_hf_model_and_tokenizer(decision),
              Fails(ErrorCode::kInvalidArgument, "not of decide()"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(MergeAndSave, IsTheStepsInOrder) {
  const testing::TempDir dir;
  MergeOptions options = keep("torch-2.13.0/hsdp_bf16_w4");
  options.target_dir = dir / "out";
  FSDPModelMerger merger(posix_file_system(), options);
  const auto planned = merger.plan();
  ASSERT_THAT(planned, IsOk());
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  const auto report = merger.merge_and_save();
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->world_size, 4);
  EXPECT_EQ(report->target, planned->target);
  EXPECT_THAT(report->meshes,
              ElementsAre("27 tensors as [R, S(0)] on 2x2 (ddp, fsdp) of ranks 0-3: 2 shards, "
                          "2 replicas"));
  EXPECT_THAT(merger.validate_state_dict(expected_of("torch-2.13.0/hsdp_bf16_w4")).value(),
              IsEmpty());
  EXPECT_THAT(merger.merge_and_save(), Fails(ErrorCode::kInvalidArgument, "--overwrite"));
  FSDPModelMerger nowhere(posix_file_system(), keep("torch-2.13.0/hsdp_bf16_w4"));
  EXPECT_THAT(nowhere.merge_and_save(), Fails(ErrorCode::kInvalidArgument, "no target folder"));
}

TEST(Cleanup, LeavesTheTargetAndMakesNothing) {
  const testing::TempDir dir;
  MergeOptions options = keep("torch-2.13.0/fsdp2_fp32_w4");
  options.target_dir = dir / "no/such/out";
  EXPECT_THAT(FSDPModelMerger(posix_file_system(), options).cleanup(), IsOk());
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  options.target_dir = dir / "out";
  testing::write_file(dir / "out/config.json", "{}");
  FSDPModelMerger merger(posix_file_system(), options);
  EXPECT_THAT(merger.cleanup(), IsOk());
  EXPECT_EQ(testing::read_file(dir / "out/config.json"), "{}");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
  std::filesystem::create_directory(dir / ".out.shardkit-stage");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir / "out");
  options.target_dir = ".";
  EXPECT_THAT(FSDPModelMerger(posix_file_system(), options).cleanup(), IsOk());
  std::filesystem::current_path(before);
  EXPECT_FALSE(std::filesystem::exists(dir / ".out.shardkit-stage"));
  const auto lock = posix_file_system().lock(dir / ".out.shardkit-lock", "another merge");
  ASSERT_THAT(lock, IsOk());
  EXPECT_THAT(merger.cleanup(), Fails(ErrorCode::kIo, "another merge"));
}

TEST(FindMerged, IsTheSameMergeIfItIsWhole) {
  const testing::TempDir dir;
  FileSystem& fs = posix_file_system();
  MergeOptions options = keep("torch-2.13.0/fsdp2_fp32_w4");
  options.target_dir = dir / "out";
  const auto find = [&] { return FSDPModelMerger(fs, options).find_merged().value(); };
  EXPECT_FALSE(find());
  const MergeReport made = FSDPModelMerger(fs, options).merge_and_save().value();
  const auto found = find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->target, made.target);
  EXPECT_EQ(found->weights.at(0).name, made.weights.at(0).name);
  EXPECT_EQ(found->summary.write_bytes, made.summary.write_bytes);

  options.dtype.kind = hf::DTypeChoice::Kind::kAuto;  // another choice, be the result the same
  EXPECT_FALSE(find());
  options.dtype.kind = hf::DTypeChoice::Kind::kKeep;
  options.local_dir = fixture("torch-2.13.0/fsdp_tp_fp32_w4");
  EXPECT_FALSE(find());
  options.local_dir = fixture("torch-2.13.0/fsdp2_fp32_w4");
  EXPECT_TRUE(find());
  std::string weights = testing::read_file(dir / "out/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  testing::write_file(dir / "out/model.safetensors", weights);
  EXPECT_FALSE(find());
  std::filesystem::remove(dir / "out/model.safetensors");
  EXPECT_FALSE(find());
}

TEST(FindMerged, OtherFoldsAndOrdersOfRowsAreOtherMerges) {
  const testing::TempDir dir;
  MergeOptions options;
  options.local_dir = dir / "ckpt";
  options.target_dir = dir / "out";
  options.lora.mode = LoraMode::kMerge;
  const auto find = [&] {
    return FSDPModelMerger(posix_file_system(), options).find_merged().value();
  };
  const auto merge = [&] {
    options.existing = ExistingTarget::kReplace;
    EXPECT_THAT(FSDPModelMerger(posix_file_system(), options).merge_and_save(), IsOk());
  };
  const Tensor matrix = testing::float_tensor({4, 1}, {1, 2, 3, 4});
  testing::write_ranks(
      dir / "ckpt", {testing::make_dict({{"base_model.model.q.base_layer.weight", matrix},
                                         {"base_model.model.q.lora_A.default.weight",
                                          testing::float_tensor({1, 1}, {1})},
                                         {"base_model.model.q.lora_B.default.weight", matrix}})});
  const auto write_adapter = [&](const std::string& alpha) {
    testing::write_file(dir / "ckpt/lora_adapter/adapter_config.json",
                        R"({"peft_type": "LORA", "r": 1, "target_modules": ["q"],
                            "lora_alpha": 1, "alpha_pattern": {"q": )" +
                            alpha + "}}");
  };
  write_adapter("2");
  merge();
  EXPECT_TRUE(find());
  write_adapter("3");
  EXPECT_FALSE(find());

  options.lora = {};
  std::filesystem::remove_all(dir / "ckpt");
  const std::string attention = "self_attn.";
  testing::write_ranks(dir / "ckpt", {testing::make_dict({{attention + "q_proj.weight", matrix},
                                                          {attention + "k_proj.weight", matrix},
                                                          {attention + "v_proj.weight", matrix}})});
  const auto write_config = [&](const std::string& heads) {
    const std::string path = dir / "ckpt/huggingface/config.json";
    testing::write_file(
        path, R"({"model_type": "gradium_phonon_tts", "num_attention_heads": )" + heads + "}");
    // Put there by what keeps times.
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24));
  };
  write_config("1");
  merge();
  EXPECT_TRUE(find());
  write_config("2");
  EXPECT_FALSE(find());
}

}  // namespace
}  // namespace shardkit
