// The families, as transformers 5.24 lists them in conversion_mapping.py, turned round.
//
// Keys, patterns and order are those of _build_checkpoint_conversion_mapping() and
// _MODEL_TO_CONVERSION_PATTERN, read from the last entry to the first, since saving undoes them in
// that order. Renames of a prefix that only the start of a name can hold are written with '^', so
// that a checkpoint which has the saved names already keeps them. PrefixChange is left out:
// save_pretrained drops it for models that were not loaded with from_pretrained, as those of a
// trainer's shards. tests/interop/test_weight_conversions.py compares the entries with
// save_pretrained.
#include "shardkit/hf/weight_conversions.h"

#include <algorithm>
#include <array>

namespace shardkit::hf {
namespace {

using Names = std::array<std::string_view, kMostRuleNames>;

constexpr SaveRule rule(SaveRule::Change change, Names held, Names saved) {
  SaveRule made{change, {}, {}};
  for (std::size_t i = 0; i < kMostRuleNames; ++i) {
    made.held[i] = held[i];
    made.saved[i] = saved[i];
  }
  return made;
}
constexpr SaveRule rename(std::string_view held, std::string_view saved) {
  return rule(SaveRule::Change::kRename, {held}, {saved});
}
constexpr SaveRule unstack(std::string_view held, std::string_view first,
                           std::string_view second = {}) {
  return rule(SaveRule::Change::kUnstack, {held}, {first, second});
}
constexpr SaveRule chunk(std::string_view held, Names saved) {
  return rule(SaveRule::Change::kChunk, {held}, saved);
}
constexpr SaveRule join(Names held, std::string_view saved) {
  return rule(SaveRule::Change::kJoin, held, {saved});
}

constexpr SaveRule transpose(std::string_view held, std::string_view saved) {
  return rule(SaveRule::Change::kTranspose, {held}, {saved});
}

// Experts.

/// "qwen2_moe", which most families share.
constexpr std::array kMlpExperts{
    unstack("mlp.experts.down_proj", "mlp.experts.*.down_proj.weight"),
    unstack("mlp.experts.gate_up_proj", "mlp.experts.*.gate_proj.weight",
            "mlp.experts.*.up_proj.weight")};
/// "mixtral"
constexpr std::array kNumberedExperts{
    unstack(".experts.down_proj", ".experts.*.w2.weight"),
    unstack(".experts.gate_up_proj", ".experts.*.w1.weight", ".experts.*.w3.weight")};
constexpr std::array kJambaExperts{
    unstack("feed_forward.experts.down_proj", "feed_forward.experts.*.down_proj.weight"),
    unstack("feed_forward.experts.gate_up_proj", "feed_forward.experts.*.gate_proj.weight",
            "feed_forward.experts.*.up_proj.weight")};
constexpr std::array kLfm2Experts{
    unstack("feed_forward.experts.down_proj", "feed_forward.experts.*.w2.weight"),
    unstack("feed_forward.experts.gate_up_proj", "feed_forward.experts.*.w1.weight",
            "feed_forward.experts.*.w3.weight")};
constexpr std::array kNemotronHExperts{
    unstack("mixer.experts.down_proj", "mixer.experts.*.down_proj.weight"),
    unstack("mixer.experts.up_proj", "mixer.experts.*.up_proj.weight")};
constexpr std::array kKimiLinearConversions{
    kNumberedExperts[0], kNumberedExperts[1],
    chunk("self_attn.conv1d.weight", {"self_attn.q_conv1d.weight", "self_attn.k_conv1d.weight",
                                      "self_attn.v_conv1d.weight"})};
constexpr std::array kGlm5NextConversions{
    chunk("self_attn.conv1d.weight", {"self_attn.q_conv1d.weight", "self_attn.k_conv1d.weight",
                                      "self_attn.v_conv1d.weight"}),
    kMlpExperts[0], kMlpExperts[1]};
constexpr std::array kBailingConversions{
    chunk("conv1d.weight", {"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"}),
    kMlpExperts[0], kMlpExperts[1]};
constexpr std::array kSarvamConversions{join({"q_proj", "k_proj", "v_proj"}, "query_key_value"),
                                        kMlpExperts[0], kMlpExperts[1]};
constexpr std::array kMiniMaxM3Conversions{
    chunk(".gate_up_proj.weight", {".gate_proj.weight", ".up_proj.weight"}), kNumberedExperts[0],
    kNumberedExperts[1]};

/// Experts of text and of images, numbered through (ErnieFuseAndSplitTextVisionExperts).
constexpr std::array kErnieVlConversions{
    rule(SaveRule::Change::kUnstack,
         {"text_moe.experts.gate_up_proj", "vision_moe.experts.gate_up_proj"},
         {"experts.*.gate_proj.weight", "experts.*.up_proj.weight"}),
    rule(SaveRule::Change::kUnstack, {"text_moe.experts.down_proj", "vision_moe.experts.down_proj"},
         {"experts.*.down_proj.weight"}),
    join({"mlp.text_moe.gate.moe_statics.e_score_correction_bias",
          "mlp.vision_moe.gate.moe_statics.e_score_correction_bias"},
         "mlp.moe_statics.e_score_correction_bias"),
    transpose("mlp.text_moe.gate.weight", "mlp.gate.weight"),
    transpose("mlp.vision_moe.gate.weight", "mlp.gate.weight_1")};

constexpr std::array kMixtralRenames{rename(".mlp.", ".block_sparse_moe.")};
constexpr std::array kMiniMaxM2Renames{
    rename(".mlp.e_score_correction_bias", ".block_sparse_moe.e_score_correction_bias"),
    rename(".mlp.", ".block_sparse_moe.")};
constexpr std::array kPhiMoeRenames{rename(".router.weight", ".gate.weight"),
                                    rename(".mlp.", ".block_sparse_moe.")};
constexpr std::array kNemotronHRenames{rename("model.", "backbone.")};
constexpr std::array kErnieMoeRenames{rename("mlp.gate.moe_statics.e_score_correction_bias",
                                             "mlp.moe_statics.e_score_correction_bias")};
constexpr std::array kErnieVlRenames{
    rename("language_model.norm.", "norm."),
    rename("language_model.layers", "layers"),
    rename("language_model.embed_tokens", "embed_tokens"),
    rename("temporal_linear.ln", "temporal_linear.3"),
    rename("temporal_linear.fc2", "temporal_linear.2"),
    rename("temporal_linear.fc1", "temporal_linear.0"),
    rename("spatial_linear.ln", "spatial_linear.3"),
    rename("spatial_linear.fc2", "spatial_linear.2"),
    rename("spatial_linear.fc1", "spatial_linear.0"),
    rename("vision_tower", "vision_model")};
constexpr std::array kExaoneMoeRenames{
    rename("mlp.gate.e_score_correction_bias", "mlp.e_score_correction_bias")};
constexpr std::array kFlintRenames{rename("self_attn.sinks", "self_attn.softmax_offset")};
constexpr std::array kMiMoRenames{rename("self_attn.sinks", "self_attn.attention_sink_bias")};
constexpr std::array kAxk1Renames{rename("mlp.post_mlp_layernorm", "post_mlp_layernorm")};
constexpr std::array kAxk2Renames{rename("self_attn.q_gate_proj.", "self_attn.q_b_proj."),
                                  rename("mlp.fc2", "W_up"), rename("mlp.fc1", "W_down")};
constexpr std::array kHyV3Renames{rename("mlp.shared_experts.", "mlp.shared_mlp."),
                                  rename("mlp.e_score_correction_bias", "mlp.expert_bias"),
                                  rename("mlp.gate.weight", "mlp.router.gate.weight")};
constexpr std::array kHyV4Renames{rename(".hc_scale", ".hc_head_scale"),
                                  rename(".hc_base", ".hc_head_base"),
                                  rename(".hc_fn", ".hc_head_fn"),
                                  rename(".ffn_hc.scale", ".hc_mlp_layer.hc_scale"),
                                  rename(".ffn_hc.base", ".hc_mlp_layer.hc_base"),
                                  rename(".ffn_hc.fn", ".hc_mlp_layer.hc_fn"),
                                  rename(".attn_hc.scale", ".hc_attn_layer.hc_scale"),
                                  rename(".attn_hc.base", ".hc_attn_layer.hc_base"),
                                  rename(".attn_hc.fn", ".hc_attn_layer.hc_fn"),
                                  rename(".gate_proj", ".linear_gate"),
                                  rename(".sinks", ".learnable_sink_param"),
                                  rename(".hc_", ".hc_pre.hc_")};
constexpr std::array kKolibriRenames{
    rename("post_mlp_layernorm", "post_ffn_norm"),
    rename("post_self_attn_layernorm", "post_attn_norm"),
    rename("mlp.gate.e_score_correction_bias", "moe.router.expert_bias")};
constexpr std::array kLagunaRenames{
    rename("mlp.shared_experts.", "mlp.shared_expert."),
    rename("mlp.gate.e_score_correction_bias", "mlp.experts.e_score_correction_bias")};
constexpr std::array kBailingRenames{
    rename(".mlp.gate.e_score_correction_bias", ".mlp.gate.expert_bias"),
    rename(".self_attn.o_proj.", ".self_attn.dense."),
    rename("self_attn.forget_gate.A_log", "self_attn.A_log"),
    rename("self_attn.forget_gate.dt_bias", "self_attn.dt_bias"),
    rename("self_attn.forget_gate.f_proj.", "self_attn.f_proj."),
    rename(".self_attn.", ".attention."),
    rename("model.embed_tokens.", "model.word_embeddings.")};
constexpr std::array kSarvamRenames{
    rename(".mlp.gate.e_score_correction_bias", ".mlp.gate.expert_bias"),
    rename(".self_attn.k_norm.", ".self_attn.key_layernorm."),
    rename(".self_attn.q_norm.", ".self_attn.query_layernorm."),
    rename(".self_attn.o_proj.", ".self_attn.dense."),
    rename(".self_attn.", ".attention."),
    rename("model.embed_tokens.", "model.word_embeddings.")};
constexpr std::array kKimiLinearRenames{
    rename(".mlp.", ".block_sparse_moe."),
    rename("self_attn.forget_gate.A_log", "self_attn.A_log"),
    rename("self_attn.forget_gate.dt_bias", "self_attn.dt_bias"),
    rename("self_attn.forget_gate.f_b_proj.", "self_attn.f_b_proj."),
    rename("self_attn.forget_gate.f_a_proj.", "self_attn.f_a_proj.")};
constexpr std::array kGlm5NextRenames{
    rename("ffn_hc.scale", "hc_ffn_scale"),
    rename("ffn_hc.base", "hc_ffn_base"),
    rename("ffn_hc.fn", "hc_ffn_fn"),
    rename("attn_hc.scale", "hc_attn_scale"),
    rename("attn_hc.base", "hc_attn_base"),
    rename("attn_hc.fn", "hc_attn_fn"),
    rename("self_attn.forget_gate.A_log", "self_attn.A_log"),
    rename("self_attn.forget_gate.dt_bias", "self_attn.dt_bias"),
    rename("self_attn.forget_gate.f_b_proj.", "self_attn.f_b_proj."),
    rename("self_attn.forget_gate.f_a_proj.", "self_attn.f_a_proj.")};
constexpr std::array kDeepseekV4Renames{
    rename(".shared_experts.up_proj.", ".shared_experts.w3."),
    rename(".shared_experts.down_proj.", ".shared_experts.w2."),
    rename(".shared_experts.gate_proj.", ".shared_experts.w1."),
    rename(".gate.e_score_correction_bias", ".gate.bias"),
    rename(".q_a_norm.", ".q_norm."),
    rename(".o_b_proj.", ".wo_b."),
    rename(".o_a_proj.", ".wo_a."),
    rename(".gate_proj.", ".wgate."),
    rename(".kv_proj.", ".wkv."),
    rename(".self_attn.q_b_proj.", ".self_attn.wq_b."),
    rename(".q_a_proj.", ".wq_a."),
    rename(".position_bias", ".ape"),
    rename(".kv_norm.", ".norm."),
    rename(".compressor.indexer.q_b_proj.", ".indexer.wq_b."),
    rename(".compressor.indexer.scorer.weights_proj.", ".indexer.weights_proj."),
    rename(".sinks", ".attn_sink"),
    rename(".ffn_hc.scale", ".hc_ffn_scale"),
    rename(".ffn_hc.base", ".hc_ffn_base"),
    rename(".ffn_hc.fn", ".hc_ffn_fn"),
    rename(".attn_hc.scale", ".hc_attn_scale"),
    rename(".attn_hc.base", ".hc_attn_base"),
    rename(".attn_hc.fn", ".hc_attn_fn"),
    rename(".post_attention_layernorm.", ".ffn_norm."),
    rename(".input_layernorm.", ".attn_norm."),
    rename("^hc_head.hc_scale", "hc_head_scale"),
    rename("^hc_head.hc_base", "hc_head_base"),
    rename("^hc_head.hc_fn", "hc_head_fn"),
    rename("^lm_head.weight", "head.weight"),
    rename("^embed_tokens.weight", "embed.weight"),
    rename(".compressor.indexer.", ".indexer.compressor."),
    rename(".mlp.", ".ffn."),
    rename(".self_attn.", ".attn.")};
constexpr std::array kMiniMaxM3Renames{
    rename(".self_attn.indexer.k_norm.", ".self_attn.index_k_norm."),
    rename(".self_attn.indexer.q_norm.", ".self_attn.index_q_norm."),
    rename(".self_attn.indexer.k_proj.", ".self_attn.index_k_proj."),
    rename(".self_attn.indexer.q_proj.", ".self_attn.index_q_proj."),
    rename(".mlp.gate.e_score_correction_bias", ".block_sparse_moe.e_score_correction_bias"),
    rename(".mlp.experts.", ".block_sparse_moe.experts."),
    rename(".mlp.gate.", ".block_sparse_moe.gate."),
    rename(".mlp.shared_experts.", ".block_sparse_moe.shared_experts."),
    rename("^model.multi_modal_projector.merge_linear_2.", "patch_merge_mlp.linear_2."),
    rename("^model.multi_modal_projector.merge_linear_1.", "patch_merge_mlp.linear_1."),
    rename("^model.multi_modal_projector.linear_2.", "multi_modal_projector.linear_2."),
    rename("^model.multi_modal_projector.linear_1.", "multi_modal_projector.linear_1."),
    rename("^model.vision_tower.pre_layrnorm.", "vision_tower.vision_model.pre_layrnorm."),
    rename("^model.vision_tower.layers.", "vision_tower.vision_model.encoder.layers."),
    rename("^model.vision_tower.embeddings.proj.",
           "vision_tower.vision_model.embeddings.patch_embedding."),
    rename("^model.language_model.", "language_model.model."),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kAriaTextRenames{
    rename("mlp.experts.down_proj", "mlp.experts.fc2.weight"),
    rename("mlp.experts.gate_up_proj", "mlp.experts.fc1.weight")};
constexpr std::array kGraniteMoeRenames{
    rename("block_sparse_moe.router.weight", "block_sparse_moe.router.layer.weight"),
    rename("block_sparse_moe.experts.down_proj", "block_sparse_moe.output_linear.weight"),
    rename("block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.input_linear.weight")};

// Models of text and images or sound, and what else is renamed.

/// "llava" and, of the model inside, "LlavaModel".
constexpr std::array kLlavaRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.multi_modal_projector", "multi_modal_projector"),
    rename("^model.vision_tower", "vision_tower"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kLlavaNextRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.image_newline", "image_newline"),
    rename("^model.multi_modal_projector", "multi_modal_projector"),
    rename("^model.vision_tower", "vision_tower"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kVideoLlavaRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.multi_modal_projector", "multi_modal_projector"),
    rename("^model.video_tower", "video_tower"),
    rename("^model.image_tower", "image_tower"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kFuyuRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.vision_embed_tokens", "vision_embed_tokens"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kMllamaRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.multi_modal_projector", "multi_modal_projector"),
    rename("^model.vision_model", "vision_model"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kEmu3Renames{rename("^model.text_model", "text_model.model"),
                                  rename("^model.vqmodel", "vqmodel"),
                                  rename("^lm_head", "text_model.lm_head")};
constexpr std::array kQwen2VlRenames{rename("^model.language_model", "model"),
                                     rename("^model.visual", "visual")};
constexpr std::array kQwenOmniThinkerRenames{rename("^model.language_model", "model"),
                                             rename("^model.visual", "visual"),
                                             rename("^model.audio_tower", "audio_tower")};
constexpr std::array kPaddleOcrRenames{rename("^model.language_model", "model"),
                                       rename("^model.visual", "visual"),
                                       rename("^model.projector", "mlp_AR")};
constexpr std::array kQwen2AudioRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.multi_modal_projector", "multi_modal_projector"),
    rename("^model.audio_tower", "audio_tower"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kGraniteSpeechRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.projector", "projector"),
    rename("^model.encoder", "encoder"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kVibeVoiceRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.multi_modal_projector", "multi_modal_projector"),
    rename("^model.semantic_tokenizer_encoder", "semantic_tokenizer_encoder"),
    rename("^model.acoustic_tokenizer_encoder", "acoustic_tokenizer_encoder"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kGemma4UnifiedRenames{
    rename("embed_vision.multimodal_embedder.embedding_projection",
           "embed_vision.embedding_projection"),
    rename("embed_vision.pos_norm", "vision_embedder.pos_norm"),
    rename("embed_vision.pos_embedding", "vision_embedder.pos_embedding"),
    rename("embed_vision.patch_ln2", "vision_embedder.patch_ln2"),
    rename("embed_vision.patch_dense", "vision_embedder.patch_dense"),
    rename("embed_vision.patch_ln1", "vision_embedder.patch_ln1")};
constexpr std::array kCosmos3EdgeRenames{
    rename(".mlp.fc2.", ".mlp.down_proj."),
    rename(".mlp.fc1.", ".mlp.up_proj."),
    rename(".self_attn.o_proj.", ".self_attn.to_out."),
    rename(".self_attn.v_proj.", ".self_attn.to_v."),
    rename(".self_attn.k_proj.", ".self_attn.to_k."),
    rename(".self_attn.q_proj.", ".self_attn.to_q."),
    rename("^model.language_model.layers.", "layers."),
    rename("^model.language_model.norm.", "norm."),
    rename("^model.language_model.embed_tokens.", "embed_tokens.")};
constexpr std::array kCosmos3OmniRenames{
    rename(".self_attn.k_norm.", ".self_attn.norm_k."),
    rename(".self_attn.q_norm.", ".self_attn.norm_q."),
    rename(".self_attn.o_proj.", ".self_attn.to_out."),
    rename(".self_attn.v_proj.", ".self_attn.to_v."),
    rename(".self_attn.k_proj.", ".self_attn.to_k."),
    rename(".self_attn.q_proj.", ".self_attn.to_q."),
    rename("^model.visual.blocks.", "blocks."),
    rename("^model.visual.merger.", "merger."),
    rename("^model.visual.patch_embed.", "patch_embed."),
    rename("^model.visual.pos_embed.", "pos_embed."),
    rename("^model.visual.deepstack_merger_list.", "deepstack_merger_list."),
    rename("^model.language_model.layers.", "layers."),
    rename("^model.language_model.embed_tokens.", "embed_tokens."),
    rename("^model.language_model.norm.", "norm.")};
constexpr std::array kHyperClovaXRenames{rename("^model.projector", "model.vision_projector"),
                                         rename("^lm_head", "model.language_model.lm_head")};
constexpr std::array kGptNeoXRenames{rename("^lm_head.", "embed_out.")};
constexpr std::array kDoryRenames{rename(".embed_tokens.", ".embeddings."),
                                  rename("^model.", "backbone."),
                                  rename(".self_attn.gate_proj.", ".self_attn.g_proj.")};
constexpr std::array kLfm3Renames{rename(".self_attn.g_proj.", ".self_attn.gate_proj.")};
constexpr std::array kOlmoHybridConversions{
    chunk("linear_attn.conv1d.weight",
          {"linear_attn.q_conv1d.weight", "linear_attn.k_conv1d.weight",
           "linear_attn.v_conv1d.weight"})};
constexpr std::array kOlmoHybridRenames{
    rename("post_attention_layernorm", "feedforward_layer_norm"),
    rename("input_layernorm", "attention_layer_norm")};
constexpr std::array kHrmTextConversions{
    join({"self_attn.gate_proj.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
          "self_attn.v_proj.weight"},
         "attn.gqkv_proj.weight"),
    join({"mlp.gate_proj.weight", "mlp.up_proj.weight"}, "mlp.gate_up_proj.weight")};
constexpr std::array kHrmTextRenames{rename(".self_attn.o_proj.", ".attn.o_proj.")};
constexpr std::array kLaraMiniConversions{
    join({"linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.in_proj_b",
          "linear_attn.in_proj_a"},
         "linear_attn.in_proj")};
constexpr std::array kLaraMiniRenames{rename("linear_attn.norm.", "linear_attn.out_norm.")};

constexpr std::string_view kPermutes = "permutes rows of projections for another rotary embedding";
constexpr std::string_view kInterleaves = "interleaves the rows of gate and up projections";
constexpr std::string_view kOtherNames = "gives parts of the model other names";

constexpr std::array kFamilies{
    // Experts one by one.
    SaveFamily{"afmoe", kMlpExperts, {}, {}},
    SaveFamily{"axk1", kMlpExperts, kAxk1Renames, {}},
    SaveFamily{"axk2", kMlpExperts, kAxk2Renames, {}},
    SaveFamily{"bailing_hybrid", kBailingConversions, kBailingRenames, {}},
    SaveFamily{"beam", kMlpExperts, {}, {}},
    SaveFamily{"cohere2_moe", kMlpExperts, {}, {}},
    SaveFamily{"deepseek_v2", kMlpExperts, {}, {}},
    SaveFamily{"deepseek_v3", kMlpExperts, {}, {}},
    SaveFamily{"deepseek_v32", kMlpExperts, {}, {}},
    SaveFamily{"deepseek_v4", kNumberedExperts, kDeepseekV4Renames, {}},
    SaveFamily{"dots1", kMlpExperts, {}, {}},
    SaveFamily{"dots3_note_text", kMlpExperts, {}, {}},
    SaveFamily{"ernie4_5_moe", kMlpExperts, kErnieMoeRenames, {}},
    SaveFamily{"ernie4_5_vl_moe", kErnieVlConversions, kErnieVlRenames, {}},
    SaveFamily{"exaone_moe", kMlpExperts, kExaoneMoeRenames, {}},
    SaveFamily{"flex_olmo", kMlpExperts, {}, {}},
    SaveFamily{"flint", kMlpExperts, kFlintRenames, {}},
    SaveFamily{"glm4_moe", kMlpExperts, {}, {}},
    SaveFamily{"glm4_moe_lite", kMlpExperts, {}, {}},
    SaveFamily{"glm4v_moe", kMlpExperts, {}, {}},
    SaveFamily{"glm5_next", kGlm5NextConversions, kGlm5NextRenames, {}},
    SaveFamily{"glm5_next_text", kGlm5NextConversions, kGlm5NextRenames, {}},
    SaveFamily{"glm_moe_dsa", kMlpExperts, {}, {}},
    SaveFamily{"hunyuan_v1_moe", kMlpExperts, {}, {}},
    SaveFamily{"hy_v3", kMlpExperts, kHyV3Renames, {}},
    SaveFamily{"jamba", kJambaExperts, {}, {}},
    SaveFamily{"kimi_linear", kKimiLinearConversions, kKimiLinearRenames, {}},
    SaveFamily{"kolibri1", kMlpExperts, kKolibriRenames, {}},
    SaveFamily{"laguna", kMlpExperts, kLagunaRenames, {}},
    SaveFamily{"lfm2_moe", kLfm2Experts, {}, {}},
    SaveFamily{"longcat_flash", kMlpExperts, {}, {}},
    SaveFamily{"mellum", kMlpExperts, {}, {}},
    SaveFamily{"mimo_v2_flash", kMlpExperts, kMiMoRenames, {}},
    SaveFamily{"minimax", kNumberedExperts, kMixtralRenames, {}},
    SaveFamily{"minimax_m2", kNumberedExperts, kMiniMaxM2Renames, {}},
    SaveFamily{"minimax_m3_vl", kMiniMaxM3Conversions, kMiniMaxM3Renames, {}},
    SaveFamily{"mixtral", kNumberedExperts, kMixtralRenames, {}},
    SaveFamily{"nemotron_h", kNemotronHExperts, kNemotronHRenames, {}},
    SaveFamily{"olmoe", kMlpExperts, {}, {}},
    SaveFamily{"phimoe", kNumberedExperts, kPhiMoeRenames, {}},
    SaveFamily{"qwen2_moe", kMlpExperts, {}, {}},
    SaveFamily{"qwen3_5_moe_text", kMlpExperts, {}, {}},
    SaveFamily{"qwen3_moe", kMlpExperts, {}, {}},
    SaveFamily{"qwen3_next", kMlpExperts, {}, {}},
    SaveFamily{"qwen3_omni_moe_text", kMlpExperts, {}, {}},
    SaveFamily{"sarvam_mla", kMlpExperts, {}, {}},
    SaveFamily{"sarvam_moe", kSarvamConversions, kSarvamRenames, {}},
    SaveFamily{"solar_open", kMlpExperts, {}, {}},
    // Experts fused, as they are held.
    SaveFamily{"aria_text", {}, kAriaTextRenames, {}},
    SaveFamily{"gpt_oss", {}, {}, {}},
    SaveFamily{"granitemoe", {}, kGraniteMoeRenames, {}},
    SaveFamily{"granitemoe_swa", {}, {}, {}},
    SaveFamily{"granitemoehybrid", {}, kGraniteMoeRenames, {}},
    SaveFamily{"granitemoeshared", {}, kGraniteMoeRenames, {}},
    SaveFamily{"hy_v4", {}, kHyV4Renames, {}},
    SaveFamily{"jetmoe", {}, {}, {}},
    SaveFamily{"lara_mini", kLaraMiniConversions, kLaraMiniRenames, {}},
    SaveFamily{"llama4", {}, {}, {}},
    SaveFamily{"llama4_text", {}, {}, {}},
    SaveFamily{"minimax_m3_vl_text", {}, {}, {}},
    SaveFamily{"mistral4", {}, {}, {}},
    SaveFamily{"muse_spark", {}, {}, {}},
    SaveFamily{"qwen3_vl_moe", {}, {}, {}},  // transposed on loading only: Transpose(check_dims)
    SaveFamily{"zaya", {}, {}, {}},
    // No experts of their own; those of the text model inside follow its entry.
    SaveFamily{"aria", {}, kLlavaRenames, {}},
    SaveFamily{"audioflamingo3", {}, kQwen2AudioRenames, {}},
    SaveFamily{"aya_vision", {}, kLlavaRenames, {}},
    SaveFamily{"cosmos3_edge", {}, kCosmos3EdgeRenames, {}},
    SaveFamily{"cosmos3_omni", {}, kCosmos3OmniRenames, {}},
    SaveFamily{"dory", {}, kDoryRenames, {}},
    SaveFamily{"emu3", {}, kEmu3Renames, {}},
    SaveFamily{"fuyu", {}, kFuyuRenames, {}},
    SaveFamily{"gemma3", {}, kLlavaRenames, {}},
    SaveFamily{"gemma4_unified", {}, kGemma4UnifiedRenames, {}},
    SaveFamily{"glmasr", {}, kQwen2AudioRenames, {}},
    SaveFamily{"got_ocr2", {}, kLlavaRenames, {}},
    SaveFamily{"granite_speech", {}, kGraniteSpeechRenames, {}},
    SaveFamily{"granite_speech_plus", {}, kGraniteSpeechRenames, {}},
    SaveFamily{"hrm_text", kHrmTextConversions, kHrmTextRenames, {}},
    SaveFamily{"hyperclovax_vision_v2", {}, kHyperClovaXRenames, {}},
    SaveFamily{"internvl", {}, kLlavaRenames, {}},
    SaveFamily{"lfm3", {}, kLfm3Renames, {}},
    SaveFamily{"llava", {}, kLlavaRenames, {}},
    SaveFamily{"llava_next", {}, kLlavaNextRenames, {}},
    SaveFamily{"llava_next_video", {}, kLlavaNextRenames, {}},
    SaveFamily{"llava_onevision", {}, kLlavaNextRenames, {}},
    SaveFamily{"mistral3", {}, kLlavaRenames, {}},
    SaveFamily{"mllama", {}, kMllamaRenames, {}},
    SaveFamily{"musicflamingo", {}, kQwen2AudioRenames, {}},
    SaveFamily{"olmo_hybrid", kOlmoHybridConversions, kOlmoHybridRenames, {}},
    SaveFamily{"paddleocr_vl", {}, kPaddleOcrRenames, {}},
    SaveFamily{"paligemma", {}, kLlavaRenames, {}},
    SaveFamily{"qwen2_audio", {}, kQwen2AudioRenames, {}},
    SaveFamily{"vibevoice_asr", {}, kVibeVoiceRenames, {}},
    SaveFamily{"video_llava", {}, kVideoLlavaRenames, {}},
    SaveFamily{"vipllava", {}, kLlavaRenames, {}},
    SaveFamily{"voxtral", {}, kQwen2AudioRenames, {}},
    SaveFamily{"voxtral_realtime", {}, kQwen2AudioRenames, {}},
    // By class: other heads of these models keep the names they hold.
    SaveFamily{"GPTNeoXForCausalLM", {}, kGptNeoXRenames, {}},
    SaveFamily{"Qwen2VLForConditionalGeneration", {}, kQwen2VlRenames, {}},
    SaveFamily{"Qwen2_5OmniThinkerForConditionalGeneration", {}, kQwenOmniThinkerRenames, {}},
    SaveFamily{"Qwen2_5_VLForConditionalGeneration", {}, kQwen2VlRenames, {}},
    SaveFamily{"Qwen3OmniMoeThinkerForConditionalGeneration", {}, kQwenOmniThinkerRenames, {}},
    // Saved in a form that boxes of tensors cannot make, or that is not listed here.
    SaveFamily{"dots3_note", {}, {}, kOtherNames},
    SaveFamily{"hunyuan_vl", {}, {}, kOtherNames},
    SaveFamily{"hy_v4_vl", {}, {}, kOtherNames},
    SaveFamily{"inkling2", {}, {}, kInterleaves},
    SaveFamily{"inkling2_loop", {}, {}, kInterleaves},
    SaveFamily{"inkling2_loop_text", {}, {}, kInterleaves},
    SaveFamily{"inkling2_text", {}, {}, kInterleaves},
    SaveFamily{"inkling_mm_model", {}, {}, kInterleaves},
    SaveFamily{"kimi_k25", {}, {}, kPermutes},
    SaveFamily{"lfm3_vl", {}, {}, kOtherNames},
    SaveFamily{"mistral_large4", {}, {}, kPermutes},
    SaveFamily{"molmo2", {}, {}, kOtherNames},
    SaveFamily{"nemo_speechlm", {}, {}, kOtherNames},
    SaveFamily{"nemotron_h_omni", {}, {}, kOtherNames},
    SaveFamily{"pi0", {}, {}, kOtherNames},
    SaveFamily{"qianfan_ocr", {}, {}, kOtherNames},
    SaveFamily{"qwen4_exp_text", {}, {}, "splits an embedding into parts"},
    SaveFamily{"step3p7", {}, {}, kPermutes},
    SaveFamily{"unlimited_ocr", {}, {}, kOtherNames},
};

}  // namespace

const SaveFamily* find_save_family(std::string_view name) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [name](const SaveFamily& f) {
    return f.name == name;
  });
  return found == kFamilies.end() ? nullptr : &*found;
}

}  // namespace shardkit::hf
