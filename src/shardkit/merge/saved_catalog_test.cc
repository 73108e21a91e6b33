// Experts that lie unevenly on ranks, with replicas and addends, cut out of what holds them; rows
// in another order.
#include "shardkit/merge/saved_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>

#include "shardkit/base/checked_math.h"
#include "shardkit/hf/config.h"
#include "shardkit/merge/merge_to_memory.h"
#include "shardkit/state/memory.h"
#include "shardkit/testing/matchers.h"
#include "shardkit/testing/tensors.h"

namespace shardkit {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::IsOk;

constexpr std::string_view kFused = "model.layers.0.mlp.experts.gate_up_proj";

/// 0, 1, 2, ... of shape [3, 4, 2] in row-major order, held in pieces of the given boxes.
CatalogTensor counting(std::string name, const std::vector<Box>& boxes) {
  CatalogTensor tensor;
  tensor.name = std::move(name);
  tensor.shape = {3, 4, 2};
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  const Tensor all = testing::float_tensor(tensor.shape, values);
  for (const Box& box : boxes) {
    Piece piece{box, all.strides, 0, all.storage};
    for (std::size_t d = 0; d < 3; ++d) piece.offset += box.offset[d] * all.strides[d];
    tensor.pieces.push_back(piece);
  }
  return tensor;
}

MergeSource source_of(std::vector<CatalogTensor> tensors, const std::string& model_type) {
  Catalog catalog;
  catalog.world_size = 1;
  catalog.tensors = std::move(tensors);
  MergeSource source;
  source.catalog = std::make_shared<const Catalog>(std::move(catalog));
  source.config = hf::parse_config("{\"model_type\": \"" + model_type + "\"}").value();
  return source;
}

CatalogTensor tensor_of_ones(Dims shape) {
  CatalogTensor tensor;
  tensor.name = "ones";
  tensor.shape = shape;
  const Tensor all = testing::float_tensor(
      shape, std::vector<float>(static_cast<std::size_t>(*element_count(shape)), 1.0f));
  tensor.pieces = {Piece{whole(shape), all.strides, 0, all.storage}};
  return tensor;
}

/// Of counting().
std::shared_ptr<const Fold> fold_of_ones() {
  auto fold = std::make_shared<Fold>();
  fold->a = std::make_shared<const CatalogTensor>(tensor_of_ones({1, 4, 2}));
  fold->b = std::make_shared<const CatalogTensor>(tensor_of_ones({3, 1}));
  return fold;
}

std::vector<float> values_of(const SavedCatalog& saved, std::size_t tensor) {
  const Tensor merged = merge_to_memory(posix_file_system(), saved.catalog, tensor, DType::kFloat32,
                                        ReplicaPolicy::kCompare, {})
                            .value();
  std::vector<float> values(static_cast<std::size_t>(merged.numel()));
  std::memcpy(values.data(), first_element(merged).value(), values.size() * sizeof(float));
  return values;
}

TEST(SavedCatalog, ExpertsOfPiecesThatCutThem) {
  // Rank boundaries inside expert 1 and across gate and up.
  const auto saved =
      saved_catalog(source_of({counting(std::string(kFused), {{{0, 0, 0}, {1, 4, 2}},
                                                              {{1, 0, 0}, {1, 1, 2}},
                                                              {{1, 1, 0}, {1, 3, 1}},
                                                              {{1, 1, 1}, {1, 3, 1}},
                                                              {{2, 0, 0}, {1, 4, 2}}})},
                              "qwen3_moe"),
                    {false});
  ASSERT_THAT(saved, IsOk());
  ASSERT_EQ(saved->catalog->tensors.size(), 6u);
  const CatalogTensor& gate = saved->catalog->tensors[1];
  EXPECT_EQ(gate.name, "model.layers.0.mlp.experts.1.gate_proj.weight");
  EXPECT_EQ(gate.made_of, kFused);
  EXPECT_EQ(gate.shape, (Dims{2, 2}));
  EXPECT_EQ(gate.pieces.size(), 3u);
  EXPECT_THAT(values_of(*saved, 1), ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(saved->catalog->tensors[4].name, "model.layers.0.mlp.experts.1.up_proj.weight");
  EXPECT_THAT(values_of(*saved, 4), ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(values_of(*saved, 5), ElementsAre(20, 21, 22, 23));
  EXPECT_THAT(saved->notes, ElementsAre("as transformers saves this model: 6 tensors cut from or "
                                        "joined of others, 0 under another name"));
}

TEST(SavedCatalog, RowsThatAlternateAreReadFromPiecesThatCutTheHalves) {
  // Within an expert, rows 0 and 1 are of the gate, 2 and 3 of the up projection.
  const auto saved = saved_catalog(
      source_of({counting("model.llm.layers.0.mlp.experts.gate_up_proj", {{{0, 0, 0}, {1, 3, 2}},
                                                                          {{0, 3, 0}, {1, 1, 2}},
                                                                          {{1, 0, 0}, {2, 4, 1}},
                                                                          {{1, 0, 1}, {2, 4, 1}}})},
                "inkling_mm_model"),
      {false});
  ASSERT_THAT(saved, IsOk());
  const CatalogTensor& tensor = saved->catalog->tensors[0];
  EXPECT_EQ(tensor.name, "model.llm.layers.0.mlp.experts.w13_weight");
  EXPECT_EQ(tensor.shape, (Dims{3, 2, 2, 2}));
  EXPECT_EQ(tensor.shape_to_write(), (Dims{3, 4, 2}));
  EXPECT_THAT(values_of(*saved, 0), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7,        //
                                                8, 9, 12, 13, 10, 11, 14, 15,  //
                                                16, 17, 20, 21, 18, 19, 22, 23));
}

TEST(SavedCatalog, TheStrideOfASingleRowMeansNothing) {
  CatalogTensor fused = counting("model.llm.layers.0.mlp.experts.gate_up_proj",
                                 {{{0, 0, 0}, {3, 1, 2}}, {{0, 1, 0}, {3, 3, 2}}});
  fused.pieces[0].strides[1] = std::numeric_limits<std::int64_t>::max();
  const auto saved = saved_catalog(source_of({fused}, "inkling_mm_model"), {false});
  ASSERT_THAT(saved, IsOk());
  EXPECT_THAT(values_of(*saved, 0), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7,        //
                                                8, 9, 12, 13, 10, 11, 14, 15,  //
                                                16, 17, 20, 21, 18, 19, 22, 23));
}

TEST(SavedCatalog, ExpertsAreTransposed) {
  const auto saved =
      saved_catalog(source_of({counting("layers.0.mixer.experts.down_proj",
                                        {{{0, 0, 0}, {3, 1, 2}}, {{0, 1, 0}, {3, 3, 2}}})},
                              "nemo_speechlm"),
                    {false});
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(saved->catalog->tensors[0].shape, (Dims{3, 2, 4}));
  EXPECT_THAT(values_of(*saved, 0), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7,        //
                                                8, 10, 12, 14, 9, 11, 13, 15,  //
                                                16, 18, 20, 22, 17, 19, 21, 23));
}

TEST(SavedCatalog, AddendsAndReplicasStay) {
  const Box all = whole({3, 4, 2});
  CatalogTensor sum = counting(std::string(kFused), {all, all, all, all});
  sum.addends = 2;
  sum.replicas = 2;
  sum.reduction = Accumulation::kSum;
  for (std::size_t i = 0; i < 4; ++i) {
    sum.pieces[i].replica = static_cast<std::int32_t>(i / 2);
    sum.pieces[i].addend = static_cast<std::int32_t>(i % 2);
  }
  const auto saved = saved_catalog(source_of({sum}, "qwen3_moe"), {false});
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(saved->catalog->tensors[0].pieces.size(), 4u);
  EXPECT_THAT(values_of(*saved, 0), ElementsAre(0, 2, 4, 6));
}

TEST(SavedCatalog, JoinedTensorsLieOneAfterAnother) {
  const Box all = whole({3, 4, 2});
  std::vector<CatalogTensor> tensors;
  for (const char* name : {"v_proj", "q_proj", "k_proj"})
    tensors.push_back(counting(std::string("self_attn.") + name, {all}));
  const auto saved = saved_catalog(source_of(tensors, "sarvam_moe"), {false, false, false});
  ASSERT_THAT(saved, IsOk());
  ASSERT_EQ(saved->catalog->tensors.size(), 1u);
  EXPECT_EQ(saved->catalog->tensors[0].shape, (Dims{9, 4, 2}));
  EXPECT_EQ(values_of(*saved, 0)[24 + 5], 5);
  tensors[1].dtype = DType::kInt32;
  EXPECT_THAT(saved_catalog(source_of(tensors, "sarvam_moe"), {false, false, false}),
              Fails(ErrorCode::kUnsupported, "saves as one differ in dtype"));
}

TEST(SavedCatalog, ATransposedTensorOfTwoPieces) {
  CatalogTensor gate;
  gate.name = "mlp.text_moe.gate.weight";
  gate.shape = {2, 3};
  const Tensor all = testing::float_tensor(gate.shape, {0, 1, 2, 3, 4, 5});
  gate.pieces = {{{{0, 0}, {1, 3}}, all.strides, 0, all.storage},
                 {{{1, 0}, {1, 3}}, all.strides, 3, all.storage}};
  const auto saved = saved_catalog(source_of({gate}, "ernie4_5_vl_moe"), {false});
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(saved->catalog->tensors[0].name, "mlp.gate.weight");
  EXPECT_EQ(saved->catalog->tensors[0].shape, (Dims{3, 2}));
  EXPECT_THAT(values_of(*saved, 0), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(SavedCatalog, WhatIsNotWholeIsRefusedBeforeItsExpertsAreNamed) {
  CatalogTensor tensor = counting(std::string(kFused), {});
  tensor.shape = {1 << 16, 4, 2};
  EXPECT_THAT(saved_catalog(source_of({tensor}, "qwen3_moe"), {false}),
              Fails(ErrorCode::kIncomplete, ""));
}

TEST(SavedCatalog, AFoldStaysWithATensorThatIsSavedWhole) {
  CatalogTensor tensor = counting("model.layers.1.mlp.gate.weight", {whole({3, 4, 2})});
  tensor.fold = fold_of_ones();
  const auto renamed = saved_catalog(source_of({tensor}, "mixtral"), {false});
  ASSERT_THAT(renamed, IsOk());
  EXPECT_EQ(renamed->catalog->tensors[0].name, "model.layers.1.block_sparse_moe.gate.weight");
  EXPECT_EQ(renamed->catalog->tensors[0].fold, tensor.fold);
}

TEST(SavedCatalog, AFoldOfATensorThatIsCutIsRefused) {
  CatalogTensor tensor = counting(std::string(kFused), {whole({3, 4, 2})});
  tensor.fold = fold_of_ones();
  EXPECT_THAT(saved_catalog(source_of({tensor}, "qwen3_moe"), {false}),
              Fails(ErrorCode::kUnsupported,
                    "saves in other parts: tensor 'model.layers.0.mlp.experts.gate_up_proj'"));
}

TEST(SavedCatalog, AFoldOfExpertsIsCutWithThem) {
  CatalogTensor tensor = counting(std::string(kFused), {whole({3, 4, 2})});
  Fold fold;
  fold.a = std::make_shared<const CatalogTensor>(tensor_of_ones({3, 2}));
  fold.b = std::make_shared<const CatalogTensor>(tensor_of_ones({4, 3}));
  fold.experts = 3;
  tensor.fold = std::make_shared<const Fold>(fold);
  const auto saved = saved_catalog(source_of({tensor}, "qwen3_moe"), {false});
  ASSERT_THAT(saved, IsOk());
  const CatalogTensor& up = saved->catalog->tensors[4];  // behind all gates
  EXPECT_EQ(up.name, "model.layers.0.mlp.experts.1.up_proj.weight");
  ASSERT_NE(up.fold, nullptr);
  EXPECT_EQ(up.fold->expert, 1);
  EXPECT_EQ(up.fold->first_row, 2);
  EXPECT_EQ(up.fold->a, fold.a);
  EXPECT_THAT(values_of(*saved, 4), ElementsAre(13, 14, 15, 16));
}

TEST(SavedCatalog, AFoldOfOneMatrixIsCutWithItsRows) {
  CatalogTensor tensor = counting("mlp.gate_up_proj.weight", {whole({3, 4, 2})});
  tensor.fold = fold_of_ones();
  const auto saved = saved_catalog(source_of({tensor}, "minimax_m3_vl"), {false});
  ASSERT_THAT(saved, IsOk());
  ASSERT_EQ(saved->catalog->tensors.size(), 2u);
  EXPECT_EQ(saved->catalog->tensors[1].fold->first_row, 2);
  EXPECT_THAT(values_of(*saved, 1), ElementsAre(17, 18, 19, 20, 21, 22, 23, 24));
}

TEST(SavedCatalog, WithoutChangesTheCatalogIsTheCheckpointsOwn) {
  const MergeSource source = source_of({counting("w", {whole({3, 4, 2})})}, "llama");
  const auto saved = saved_catalog(source, {true});
  ASSERT_THAT(saved, IsOk());
  EXPECT_EQ(saved->catalog, source.catalog);
  EXPECT_THAT(saved->dropped, ElementsAre(true));
}

}  // namespace
}  // namespace shardkit
