// Names and boxes against what transformers 5.24 writes for such models; the bytes of whole models
// are compared in tests/interop/test_weight_conversions.py.
#include "shardkit/hf/saved_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shardkit/hf/weight_conversions.h"
#include "shardkit/testing/matchers.h"

namespace shardkit::hf {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;

ModelConfig config_of(const std::string& model_type, const std::string& text_model_type = {},
                      const std::string& architecture = {}) {
  ModelConfig config;
  config.model_type = model_type;
  if (!text_model_type.empty()) config.parts = {{"text_config", text_model_type}};
  if (!architecture.empty()) config.architectures = {architecture};
  return config;
}

Result<SavedForm> form_of(const ModelConfig& config, const std::vector<HeldTensor>& held) {
  return saved_form(&config, held);
}

std::vector<std::string> names_of(const Result<SavedForm>& form) {
  EXPECT_THAT(form, IsOk());
  std::vector<std::string> names;
  for (const SavedTensor& tensor : form->tensors.value()) names.push_back(tensor.name);
  return names;
}

TEST(SavedForm, ExpertsOneByOne) {
  const auto form =
      form_of(config_of("qwen3_moe"), {{"model.layers.0.mlp.experts.gate_up_proj", {2, 6, 4}},
                                       {"model.layers.0.mlp.experts.down_proj", {2, 4, 3}},
                                       {"lm_head.weight", {8, 4}}});
  EXPECT_THAT(names_of(form),
              ElementsAre("lm_head.weight", "model.layers.0.mlp.experts.0.down_proj.weight",
                          "model.layers.0.mlp.experts.1.down_proj.weight",
                          "model.layers.0.mlp.experts.0.gate_proj.weight",
                          "model.layers.0.mlp.experts.1.gate_proj.weight",
                          "model.layers.0.mlp.experts.0.up_proj.weight",
                          "model.layers.0.mlp.experts.1.up_proj.weight"));
  const SavedTensor& up = (*form->tensors)[6];
  EXPECT_EQ(up.shape, (Dims{3, 4}));
  EXPECT_TRUE(up.is_entry);
  ASSERT_EQ(up.parts.size(), 1u);
  EXPECT_EQ(up.parts[0].held, 0u);
  EXPECT_EQ(up.parts[0].box, (Box{{1, 3, 0}, {1, 3, 4}}));
  EXPECT_THAT(form->warnings, IsEmpty());
}

TEST(SavedForm, RenamesAfterTheCut) {
  const auto form =
      form_of(config_of("mixtral"), {{"model.layers.1.mlp.experts.down_proj", {1, 4, 3}},
                                     {"model.layers.1.mlp.gate.weight", {1, 4}}});
  EXPECT_THAT(names_of(form), ElementsAre("model.layers.1.block_sparse_moe.experts.0.w2.weight",
                                          "model.layers.1.block_sparse_moe.gate.weight"));
}

TEST(SavedForm, AModelOfTextAndImagesWithExpertsInsideIsSavedByBothEntries) {
  const auto form = form_of(config_of("internvl", "qwen3_moe"),
                            {{"lm_head.weight", {8, 4}},
                             {"model.language_model.layers.0.mlp.experts.down_proj", {1, 4, 3}},
                             {"model.vision_tower.mlp.experts.down_proj", {1, 4, 3}}});
  EXPECT_THAT(names_of(form),
              ElementsAre("language_model.lm_head.weight",
                          "language_model.model.layers.0.mlp.experts.0.down_proj.weight",
                          "vision_tower.mlp.experts.down_proj"));
}

TEST(SavedForm, TheClassCountsBeforeTheModelType) {
  const std::vector<HeldTensor> held{{"lm_head.weight", {8, 4}}};
  EXPECT_THAT(names_of(form_of(config_of("gpt_neox", "", "GPTNeoXForCausalLM"), held)),
              ElementsAre("embed_out.weight"));
  EXPECT_FALSE(form_of(config_of("gpt_neox", "", "GPTNeoXForTokenClassification"), held)
                   ->tensors.has_value());
}

TEST(SavedForm, NamesThatAreSavedAlreadyStay) {
  const std::vector<HeldTensor> held{{"language_model.lm_head.weight", {8, 4}},
                                     {"language_model.model.norm.weight", {4}},
                                     {"vision_tower.norm.weight", {4}}};
  EXPECT_THAT(names_of(form_of(config_of("llava"), held)),
              ElementsAre("language_model.lm_head.weight", "language_model.model.norm.weight",
                          "vision_tower.norm.weight"));
  EXPECT_THAT(names_of(form_of(config_of("qwen2_moe"),
                               {{"model.layers.0.mlp.experts.0.up_proj.weight", {3, 4}}})),
              ElementsAre("model.layers.0.mlp.experts.0.up_proj.weight"));
}

TEST(SavedForm, NumbersAndOtherPartsOfANameAreKeptWhereARuleMovesThem) {
  EXPECT_THAT(names_of(form_of(config_of("segformer"),
                               {{"segformer.stages.10.blocks.2.mlp.fc1.weight", {4, 4}},
                                {"segformer.stages.x.blocks.2.layer_norm", {4}}})),
              ElementsAre("segformer.encoder.block.10.2.mlp.dense1.weight",
                          "segformer.stages.x.blocks.2.layer_norm"));
  EXPECT_THAT(names_of(form_of(config_of("cohere_asr"),
                               {{"model.encoder.layers.1.self_attn.q_proj.weight", {4, 4}},
                                {"model.decoder.layers.1.self_attn.q_proj.weight", {4, 4}}})),
              ElementsAre("model.transf_decoder._decoder.layers.1.first_sub_layer.query_net.weight",
                          "model.encoder.layers.1.self_attn.linear_q.weight"));
}

TEST(SavedForm, ANameThatHasTheSavedFormIsNotRenamedAgain) {
  EXPECT_THAT(names_of(form_of(config_of("nomic_bert"), {{"encoder.layers.0.fc2.weight", {4, 4}},
                                                         {"layers.1.down_proj.weight", {4, 4}}})),
              ElementsAre("encoder.layers.0.fc2.weight", "encoder.layers.1.fc2.weight"));
  EXPECT_THAT(
      names_of(form_of(
          config_of("llava", "", "LlavaModel"),
          {{"language_model.model.norm.weight", {4}}, {"language_model.norm.weight_2", {4}}})),
      ElementsAre("language_model.model.norm.weight", "language_model.model.norm.weight_2"));
  EXPECT_THAT(names_of(form_of(config_of("sam3_tracker"),
                               {{"tracker_model.mask.weight", {4}}, {"prompt.weight", {4}}})),
              ElementsAre("tracker_model.prompt.weight", "tracker_model.mask.weight"));
}

TEST(SavedForm, PartsOfATensorThatAreSavedOneByOneStay) {
  // Their names end as that of the whole tensor, or of a part of another, does.
  const std::vector<HeldTensor> convolutions = {{"layers.0.attention.k_conv1d.weight", {6, 1}},
                                                {"layers.0.attention.q_conv1d.weight", {6, 1}},
                                                {"layers.0.attention.v_conv1d.weight", {6, 1}}};
  EXPECT_THAT(names_of(form_of(config_of("bailing_hybrid"), convolutions)),
              ElementsAre(convolutions[0].name, convolutions[1].name, convolutions[2].name));
  EXPECT_THAT(names_of(form_of(config_of("unlimited_ocr_vision"),
                               {{"vision_model.layers.0.self_attn.qkv_proj.bias", {6}}})),
              ElementsAre("vision_model.layers.0.self_attn.qkv_proj.bias"));
  EXPECT_THAT(
      names_of(form_of(config_of("hy_v4"), {{"model.layers.0.hc_pre.hc_attn_layer.hc_fn", {6}},
                                            {"model.layers.0.hc_pre.hc_mlp_layer.hc_fn", {6}},
                                            {"model.hc_pre.hc_head.hc_head_fn", {6}}})),
      ElementsAre("model.hc_pre.hc_head.hc_head_fn", "model.layers.0.hc_pre.hc_attn_layer.hc_fn",
                  "model.layers.0.hc_pre.hc_mlp_layer.hc_fn"));
}

TEST(SavedForm, AHeadOfAnotherTaskKeepsItsNames) {
  EXPECT_THAT(names_of(form_of(config_of("sapiens2", "", "Sapiens2ForPoseEstimation"),
                               {{"decode_head.input_conv.convolution.bias", {6}},
                                {"decode_head.upsample_layers.0.convolution.bias", {6}},
                                {"decode_head.upsample_layers.0.convolution.weight", {6}}})),
              ElementsAre("decode_head.input_conv.convolution.bias",
                          "decode_head.upsample_layers.0.convolution.bias",
                          "decode_head.deconv_layers.0.weight"));
}

TEST(SavedForm, APartIsSavedByItsOwnEntryWhereItLies) {
  ModelConfig config = config_of("depth_anything");
  config.parts = {{"backbone_config", "beit"}};
  const std::vector<HeldTensor> held{{"backbone.beit.embeddings.cls_token", {1, 1, 4}},
                                     {"backbone.beit.layers.0.mlp.fc1.weight", {4, 4}},
                                     {"head.mlp.fc1.weight", {4, 4}}};
  EXPECT_THAT(
      names_of(form_of(config, held)),
      ElementsAre("backbone.embeddings.cls_token",
                  "backbone.encoder.layer.0.intermediate.dense.weight", "head.mlp.fc1.weight"));
  config.parts = {{"backbone_config", "swinv2"}};
  EXPECT_FALSE(form_of(config, held)->tensors.has_value());
}

TEST(SavedForm, TheModelWithoutAHeadIsSavedFirst) {
  EXPECT_THAT(
      names_of(form_of(config_of("rf_detr", "", "RfDetrForInstanceSegmentation"),
                       {{"model.model.enc_output.0.weight", {4, 4}}, {"segmentation_bias", {1}}})),
      ElementsAre("transformer.enc_output.0.weight", "segmentation_head.bias"));
}

TEST(SavedForm, ARuleEndsWhereAWordDoes) {
  const auto form = form_of(config_of("qwen2_moe"), {{"mlp.experts.gate_up_proj_bias", {2, 6, 4}}});
  EXPECT_THAT(names_of(form), ElementsAre("mlp.experts.gate_up_proj_bias"));
  ASSERT_EQ(form->warnings.size(), 1u);
  EXPECT_THAT(form->warnings[0], HasSubstr("'mlp.experts.gate_up_proj_bias'"));
}

TEST(SavedForm, ConvolutionsShareRowsAsTorchChunk) {
  // torch.chunk of 64 rows in 3: 22, 22, 20.
  const auto form =
      form_of(config_of("olmo_hybrid"), {{"model.layers.0.linear_attn.conv1d.weight", {64, 1, 4}}});
  ASSERT_THAT(form, IsOk());
  ASSERT_EQ(form->tensors->size(), 3u);
  EXPECT_EQ((*form->tensors)[2].name, "model.layers.0.linear_attn.v_conv1d.weight");
  EXPECT_EQ((*form->tensors)[2].parts[0].box, (Box{{44, 0, 0}, {20, 1, 4}}));
}

TEST(SavedForm, ProjectionsAreJoinedInTheOrderOfTheRule) {
  const std::vector<HeldTensor> held{{"model.layers.0.self_attn.k_proj.weight", {2, 4}},
                                     {"model.layers.0.self_attn.q_proj.weight", {4, 4}},
                                     {"model.layers.0.self_attn.v_proj.weight", {2, 4}}};
  const auto form = form_of(config_of("sarvam_moe"), held);
  EXPECT_THAT(names_of(form), ElementsAre("model.layers.0.attention.query_key_value.weight"));
  const SavedTensor& joined = (*form->tensors)[0];
  EXPECT_EQ(joined.shape, (Dims{8, 4}));
  ASSERT_EQ(joined.parts.size(), 3u);
  EXPECT_EQ(joined.parts[0].held, 1u);
  EXPECT_EQ(joined.parts[1].held, 0u);
  std::vector<HeldTensor> twice = held;
  twice.push_back({"model.layers.0.attention.v_proj.weight", {2, 4}});
  EXPECT_THAT(form_of(config_of("sarvam_moe"), twice),
              Fails(ErrorCode::kCorrupt, "as one part of"));
  EXPECT_THAT(form_of(config_of("sarvam_moe"), {held[0], held[1]}),
              Fails(ErrorCode::kIncomplete, "not all tensors are there"));
  EXPECT_THAT(form_of(config_of("sarvam_moe"), {held[0], held[1], {held[2].name, {2, 5}}}),
              Fails(ErrorCode::kIncomplete, "do not fit each other"));
}

TEST(SavedForm, ExpertsOfTextAndImagesAreNumberedThroughAndGatesTransposed) {
  const std::string mlp = "model.language_model.layers.1.mlp.";
  const auto form =
      form_of(config_of("ernie4_5_vl_moe"), {{mlp + "text_moe.experts.down_proj", {2, 4, 6}},
                                             {mlp + "vision_moe.experts.down_proj", {2, 4, 3}},
                                             {mlp + "vision_moe.gate.weight", {2, 4}}});
  const std::string saved = "model.layers.1.mlp.";
  EXPECT_THAT(
      names_of(form),
      ElementsAre(saved + "experts.0.down_proj.weight", saved + "experts.1.down_proj.weight",
                  saved + "experts.2.down_proj.weight", saved + "experts.3.down_proj.weight",
                  saved + "gate.weight_1"));
  EXPECT_EQ((*form->tensors)[2].shape, (Dims{4, 3}));
  EXPECT_EQ((*form->tensors)[4].shape, (Dims{4, 2}));
  EXPECT_EQ((*form->tensors)[4].parts[0].order, (Dims{1, 0}));
}

TEST(SavedForm, TwoRulesThatMeetAtOneNameAreRefused) {
  // The first is of a rule of two tensors, the second is the third of another rule's.
  EXPECT_THAT(form_of(config_of("gte"), {{"attention.qkv_proj.mlp.up_proj", {2, 4}},
                                         {"attention.qkv_proj.mlp.gate_proj", {2, 4}},
                                         {"self_attn.v_proj.mlp.up_gate_proj", {2, 4}}}),
              Fails(ErrorCode::kCorrupt, "as one part of"));
}

TEST(SavedForm, TwoTensorsUnderOneNameAreRefused) {
  EXPECT_THAT(form_of(config_of("mixtral"), {{"layers.0.mlp.gate.weight", {1, 4}},
                                             {"layers.0.block_sparse_moe.gate.weight", {1, 4}}}),
              Fails(ErrorCode::kCorrupt, "two tensors would be saved under one name"));
}

TEST(SavedForm, FusedExpertsOfAFamilyThatIsNotListedAreTold) {
  const std::vector<HeldTensor> held{{"model.layers.0.mlp.experts.gate_up_proj", {2, 6, 4}},
                                     {"model.layers.1.mlp.experts.gate_up_proj", {2, 6, 4}}};
  const auto form = form_of(config_of("novel_moe"), held);
  ASSERT_THAT(form, IsOk());
  EXPECT_FALSE(form->tensors.has_value());
  ASSERT_EQ(form->warnings.size(), 1u);
  EXPECT_THAT(form->warnings[0],
              HasSubstr("'model.layers.0.mlp.experts.gate_up_proj' and 1 more hold experts in one "
                        "tensor each, and how a model of type 'novel_moe' saves them is not "
                        "known"));
  EXPECT_THAT(saved_form(nullptr, held)->warnings[0], HasSubstr("how such a model saves them"));
  EXPECT_THAT(form_of(config_of("gpt_oss"), held)->warnings, IsEmpty());
}

TEST(SavedForm, ExpertsThatAreOneByOneAlreadyAreTold) {
  const auto form =
      form_of(config_of("mixtral"),
              {{"model.layers.0.block_sparse_moe.experts.0.w1.weight", {3, 4}},
               {"model.layers.0.block_sparse_moe.experts.10.w2.weight_scale", {1, 1}}});
  ASSERT_THAT(form, IsOk());
  EXPECT_THAT(form->notes, ElementsAre(HasSubstr("2 tensors hold one expert each already")));
  EXPECT_THAT(form->warnings, IsEmpty());
}

TEST(SavedForm, NamesOfNeitherFormAreTold) {
  const auto form =
      form_of(config_of("qwen3_moe"), {{"model.layers.0.mlp.experts.0.w1.weight", {3, 4}},
                                       {"model.layers.0.mlp.experts.0.w2.weight", {4, 3}}});
  ASSERT_THAT(form, IsOk());
  EXPECT_THAT(form->notes, IsEmpty());
  EXPECT_THAT(form->warnings,
              ElementsAre(HasSubstr("'model.layers.0.mlp.experts.0.w1.weight' and 1 more are named "
                                    "neither as transformers holds experts of type 'qwen3_moe'")));
}

ModelConfig kimi_with(std::int64_t heads) {
  ModelConfig config = config_of("kimi_k25");
  config.parts = {{"vision_config", "kimi_k25_vision", heads}};
  return config;
}

std::vector<HeldTensor> projections(const Dims& shape) {
  const std::string attn = "model.vision_tower.layers.0.attn.";
  return {{attn + "k_proj.weight", shape},
          {attn + "q_proj.weight", shape},
          {attn + "v_proj.weight", shape}};
}

TEST(SavedForm, RowsOfEachHeadAlternateWhereTheRotaryEmbeddingPairsNeighbours) {
  const auto form = form_of(kimi_with(2), projections({12, 5}));
  EXPECT_THAT(names_of(form), ElementsAre("vision_tower.encoder.blocks.0.wqkv.weight"));
  const SavedTensor& joined = (*form->tensors)[0];
  EXPECT_EQ(joined.shape, (Dims{36, 5}));
  EXPECT_EQ(joined.view, (Dims{6, 3, 2, 5}));
  ASSERT_EQ(joined.parts.size(), 3u);
  EXPECT_EQ(joined.parts[0].held, 1u);
  EXPECT_EQ(joined.parts[0].factors, (Dims{2, 2, 3}));
  EXPECT_EQ(joined.parts[0].order, (Dims{0, 2, 1, 3}));
  EXPECT_EQ(joined.parts[2].factors, (Dims{2, 3, 2}));
  EXPECT_TRUE(joined.parts[2].order.empty());
}

TEST(SavedForm, HeadsThatAreNotToldOrDoNotShareTheRowsAreRefused) {
  EXPECT_THAT(form_of(config_of("kimi_k25"), projections({12, 5})),
              Fails(ErrorCode::kUnsupported, "vision_config.num_attention_heads"));
  ModelConfig of_text = config_of("kimi_k25", "deepseek_v3");
  of_text.sizes.num_attention_heads = 2;  // which are not those of the images' part
  EXPECT_THAT(form_of(of_text, projections({12, 5})),
              Fails(ErrorCode::kUnsupported, "vision_config.num_attention_heads"));
  // The part alone is configured by the top level, and inside another model by its member.
  const auto vision = [](const std::string& prefix) {
    return std::vector<HeldTensor>{{prefix + "layers.0.self_attn.q_proj.bias", {12}},
                                   {prefix + "layers.0.self_attn.k_proj.bias", {12}},
                                   {prefix + "layers.0.self_attn.v_proj.bias", {12}}};
  };
  ModelConfig config = config_of("step3p5_vision");
  config.sizes.num_attention_heads = 3;
  EXPECT_EQ(form_of(config, vision(""))->tensors->front().view, (Dims{9, 2, 2}));
  config = config_of("step3p7");
  config.sizes.num_attention_heads = 3;
  config.parts = {{"vision_config", "step3p5_vision", 2}};
  EXPECT_EQ(form_of(config, vision("model.vision_model."))->tensors->front().view, (Dims{6, 3, 2}));
  EXPECT_THAT(form_of(kimi_with(5), projections({12, 5})),
              Fails(ErrorCode::kCorrupt, "cannot be divided into the parts"));
  std::vector<HeldTensor> grouped = projections({12, 5});
  grouped[2].shape = {6, 5};
  EXPECT_THAT(form_of(kimi_with(2), grouped),
              Fails(ErrorCode::kCorrupt, "cannot be divided into the parts"));
}

TEST(SavedForm, GateAndUpProjectionsAlternate) {
  const std::string mlp = "model.language_model.layers.0.mlp.";
  const auto form =
      form_of(config_of("inkling_mm_model"), {{mlp + "experts.gate_up_proj", {2, 6, 4}},
                                              {mlp + "gate_proj.weight", {3, 4}},
                                              {mlp + "up_proj.weight", {3, 4}}});
  EXPECT_THAT(names_of(form), ElementsAre("model.llm.layers.0.mlp.experts.w13_weight",
                                          "model.llm.layers.0.mlp.w13_dn.weight"));
  const SavedTensor& fused = (*form->tensors)[0];
  EXPECT_EQ(fused.view, (Dims{2, 3, 2, 4}));
  EXPECT_EQ(fused.parts[0].factors, (Dims{2, 3}));
  EXPECT_EQ(fused.parts[0].order, (Dims{0, 2, 1, 3}));
  const SavedTensor& joined = (*form->tensors)[1];
  EXPECT_EQ(joined.shape, (Dims{6, 4}));
  EXPECT_EQ(joined.view, (Dims{3, 2, 4}));
  EXPECT_EQ(joined.along, 1u);
  EXPECT_THAT(form_of(config_of("inkling_mm_model"), {{mlp + "experts.gate_up_proj", {2, 5, 4}}}),
              Fails(ErrorCode::kCorrupt, "cannot be divided into the parts"));
}

TEST(SavedForm, AnEmbeddingIsCutIntoAsManyPartsAsConfigJsonSays) {
  ModelConfig config = config_of("qwen4_exp_text");
  const std::vector<HeldTensor> held{{"model.ngram_embedding.weight", {6, 4}}};
  config.sizes.split_ngram_parts = 3;
  EXPECT_THAT(names_of(form_of(config, held)), ElementsAre("model.ngram_embedding.shard_0.weight",
                                                           "model.ngram_embedding.shard_1.weight",
                                                           "model.ngram_embedding.shard_2.weight"));
  for (const std::optional<std::int64_t> parts :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(0),
        std::optional<std::int64_t>(5), std::optional<std::int64_t>(std::int64_t{1} << 40)}) {
    config.sizes.split_ngram_parts = parts;  // of five parts, three would take all six rows
    EXPECT_THAT(form_of(config, held),
                Fails(ErrorCode::kUnsupported, "into how many parts transformers cuts a tensor"));
  }
}

TEST(SavedForm, QueriesOfALoopAreTakenApart) {
  const auto form = form_of(
      config_of("inkling2_loop_text"),
      {{"model.message_input.query", {3, 4, 8}}, {"model.layers.3.attention_input.query", {8}}});
  EXPECT_THAT(names_of(form), ElementsAre("model.llm.attn_res.attn_queries.2",
                                          "model.llm.middle_cycle_cross_pass_queries",
                                          "model.llm.middle_cycle_cross_pass_kv_queries"));
  const SavedTensor& queries = (*form->tensors)[1];
  EXPECT_EQ(queries.shape, (Dims{6, 8}));
  EXPECT_EQ(queries.view, (Dims{3, 2, 8}));
  EXPECT_EQ(queries.parts[1].box, (Box{{0, 3, 0}, {3, 1, 8}}));
}

TEST(SavedForm, SizesThatNoModelHasAreKept) {
  for (const Dims& shape : {Dims{std::int64_t{1} << 40, 2, 0}, Dims{2, 5, 4}, Dims{}}) {
    const auto form = form_of(config_of("qwen2_moe"), {{"mlp.experts.gate_up_proj", shape}});
    EXPECT_THAT(names_of(form), ElementsAre("mlp.experts.gate_up_proj")) << to_string(shape);
  }
}

}  // namespace
}  // namespace shardkit::hf
