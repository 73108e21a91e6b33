// Families of models of text: experts one by one, and other names.
#include <array>

#include "shardkit/hf/save_rules_internal.h"

namespace shardkit::hf::internal {
namespace {

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
    chunk("self_attn.conv1d.weight",
          {"self_attn.q_conv1d.weight", "self_attn.k_conv1d.weight", "self_attn.v_conv1d.weight"})};
constexpr std::array kGlm5NextConversions{
    chunk("self_attn.conv1d.weight",
          {"self_attn.q_conv1d.weight", "self_attn.k_conv1d.weight", "self_attn.v_conv1d.weight"}),
    kMlpExperts[0], kMlpExperts[1]};
constexpr std::array kBailingConversions{
    chunk(".conv1d.weight", {".q_conv1d.weight", ".k_conv1d.weight", ".v_conv1d.weight"}),
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
constexpr std::array kErnieVlRenames{rename("language_model.norm.", "norm."),
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
constexpr std::array kHyV4Renames{rename("hc_head.hc_scale", "hc_head.hc_head_scale"),
                                  rename("hc_head.hc_base", "hc_head.hc_head_base"),
                                  rename("hc_head.hc_fn", "hc_head.hc_head_fn"),
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
    rename(".mlp.", ".block_sparse_moe."), rename("self_attn.forget_gate.A_log", "self_attn.A_log"),
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
constexpr std::array kAriaTextRenames{rename("mlp.experts.down_proj", "mlp.experts.fc2.weight"),
                                      rename("mlp.experts.gate_up_proj", "mlp.experts.fc1.weight")};
constexpr std::array kGraniteMoeRenames{
    rename("block_sparse_moe.router.weight", "block_sparse_moe.router.layer.weight"),
    rename("block_sparse_moe.experts.down_proj", "block_sparse_moe.output_linear.weight"),
    rename("block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.input_linear.weight")};
constexpr std::array kGptNeoXRenames{rename("^lm_head.", "embed_out.")};
constexpr std::array kDoryRenames{rename(".embed_tokens.", ".embeddings."),
                                  rename("^model.", "backbone."),
                                  rename(".self_attn.gate_proj.", ".self_attn.g_proj.")};
constexpr std::array kLfm3Renames{rename(".self_attn.g_proj.", ".self_attn.gate_proj.")};
constexpr std::array kOlmoHybridConversions{chunk(
    "linear_attn.conv1d.weight",
    {"linear_attn.q_conv1d.weight", "linear_attn.k_conv1d.weight", "linear_attn.v_conv1d.weight"})};
constexpr std::array kOlmoHybridRenames{
    rename("post_attention_layernorm", "feedforward_layer_norm"),
    rename("input_layernorm", "attention_layer_norm")};
constexpr std::array kHrmTextConversions{
    join({"self_attn.gate_proj.weight", "self_attn.q_proj.weight", "self_attn.k_proj.weight",
          "self_attn.v_proj.weight"},
         "attn.gqkv_proj.weight"),
    join({"mlp.gate_proj.weight", "mlp.up_proj.weight"}, "mlp.gate_up_proj.weight")};
constexpr std::array kHrmTextRenames{rename(".self_attn.o_proj.", ".attn.o_proj.")};
constexpr std::array kLaraMiniConversions{join({"linear_attn.in_proj_qkv", "linear_attn.in_proj_z",
                                                "linear_attn.in_proj_b", "linear_attn.in_proj_a"},
                                               "linear_attn.in_proj")};
constexpr std::array kLaraMiniRenames{rename("linear_attn.norm.", "linear_attn.out_norm.")};
constexpr std::array kNomicBertConversions{
    join({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, "attn.Wqkv")};
constexpr std::array kNomicBertRenames{rename("post_mlp_layernorm", "norm2"),
                                       rename("post_attention_layernorm", "norm1"),
                                       rename("down_proj", "fc2"),
                                       rename("gate_proj", "fc12"),
                                       rename("up_proj", "fc11"),
                                       rename("self_attn.o_proj", "attn.out_proj"),
                                       rename("embeddings.LayerNorm", "emb_ln"),
                                       rename("layers", "encoder.layers")};
constexpr std::array kGteConversions{
    join({"mlp.up_proj", "mlp.gate_proj"}, "mlp.up_gate_proj"),
    join({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, "attention.qkv_proj")};
constexpr std::array kGteRenames{
    rename("lm_head.layer_norm", "lm_head.norm"), rename("post_mlp_layernorm", "mlp_ln"),
    rename("post_attention_layernorm", "attn_ln"), rename("self_attn.o_proj", "attention.o_proj"),
    rename("layers", "encoder.layer")};
constexpr std::array kJinaEmbeddingsConversions{
    join({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, "mixer.Wqkv")};
constexpr std::array kJinaEmbeddingsRenames{
    rename("post_mlp_layernorm", "norm2"), rename("post_attention_layernorm", "norm1"),
    rename("self_attn.o_proj", "mixer.out_proj"), rename("layers", "encoder.layers"),
    rename("embeddings.LayerNorm", "emb_ln")};
constexpr std::array kEsmRenames{
    rename("LayerNorm.bias", "LayerNorm.beta"), rename("LayerNorm.weight", "LayerNorm.gamma"),
    rename("rotary_embeddings.inv_freq",
           "encoder.layer.*.attention.self.rotary_embeddings.inv_freq")};
constexpr std::array kUltraBertMaskedLmRenames{rename("^head.decoder.", "cls."),
                                               rename("^model.", "ultrabert.")};
constexpr std::array kUltraVBertMaskedLmRenames{rename("^projection_head.", "head."),
                                                rename("^lm_head.", "head.decoder.")};
constexpr std::array kT5Gemma2EncoderRenames{rename("text_model.layers.", "layers."),
                                             rename("text_model.norm.", "norm."),
                                             rename("text_model.embed_tokens.", "embed_tokens.")};
constexpr std::array kTimesFmRenames{rename("fc2", "ff1"), rename("fc1", "ff0")};
constexpr std::array kJevRenames{rename("^proj.weight", "weight")};
constexpr std::array kExaoneRenames{rename(".mlp.down_proj.", ".mlp.c_proj."),
                                    rename(".mlp.up_proj.", ".mlp.c_fc_1."),
                                    rename(".mlp.gate_proj.", ".mlp.c_fc_0."),
                                    rename(".post_attention_layernorm.", ".ln_2."),
                                    rename(".input_layernorm.", ".ln_1."),
                                    rename(".self_attn.o_proj.", ".self_attn.out_proj."),
                                    rename(".self_attn.", ".attn.attention."),
                                    rename("^model.norm.", "transformer.ln_f."),
                                    rename("^model.layers.", "transformer.h."),
                                    rename("^model.embed_tokens.", "transformer.wte.")};
constexpr std::array kUltraBertRenames{rename("^model.", "ultrabert.")};

constexpr std::array kFamilies{
    // Experts one by one.
    SaveFamily{"afmoe", kMlpExperts, {}},
    SaveFamily{"axk1", kMlpExperts, kAxk1Renames},
    SaveFamily{"axk2", kMlpExperts, kAxk2Renames},
    SaveFamily{"bailing_hybrid", kBailingConversions, kBailingRenames},
    SaveFamily{"beam", kMlpExperts, {}},
    SaveFamily{"cohere2_moe", kMlpExperts, {}},
    SaveFamily{"deepseek_v2", kMlpExperts, {}},
    SaveFamily{"deepseek_v3", kMlpExperts, {}},
    SaveFamily{"deepseek_v32", kMlpExperts, {}},
    SaveFamily{"deepseek_v4", kNumberedExperts, kDeepseekV4Renames},
    SaveFamily{"dots1", kMlpExperts, {}},
    SaveFamily{"dots3_note_text", kMlpExperts, {}},
    SaveFamily{"ernie4_5_moe", kMlpExperts, kErnieMoeRenames},
    SaveFamily{"ernie4_5_vl_moe", kErnieVlConversions, kErnieVlRenames},
    SaveFamily{"exaone_moe", kMlpExperts, kExaoneMoeRenames},
    SaveFamily{"flex_olmo", kMlpExperts, {}},
    SaveFamily{"flint", kMlpExperts, kFlintRenames},
    SaveFamily{"glm4_moe", kMlpExperts, {}},
    SaveFamily{"glm4_moe_lite", kMlpExperts, {}},
    SaveFamily{"glm4v_moe", kMlpExperts, {}},
    SaveFamily{"glm5_next", kGlm5NextConversions, kGlm5NextRenames},
    SaveFamily{"glm5_next_text", kGlm5NextConversions, kGlm5NextRenames},
    SaveFamily{"glm_moe_dsa", kMlpExperts, {}},
    SaveFamily{"hunyuan_v1_moe", kMlpExperts, {}},
    SaveFamily{"hy_v3", kMlpExperts, kHyV3Renames},
    SaveFamily{"jamba", kJambaExperts, {}},
    SaveFamily{"kimi_linear", kKimiLinearConversions, kKimiLinearRenames},
    SaveFamily{"kolibri1", kMlpExperts, kKolibriRenames},
    SaveFamily{"laguna", kMlpExperts, kLagunaRenames},
    SaveFamily{"lfm2_moe", kLfm2Experts, {}},
    SaveFamily{"longcat_flash", kMlpExperts, {}},
    SaveFamily{"mellum", kMlpExperts, {}},
    SaveFamily{"mimo_v2_flash", kMlpExperts, kMiMoRenames},
    SaveFamily{"minimax", kNumberedExperts, kMixtralRenames},
    SaveFamily{"minimax_m2", kNumberedExperts, kMiniMaxM2Renames},
    SaveFamily{"minimax_m3_vl", kMiniMaxM3Conversions, kMiniMaxM3Renames},
    SaveFamily{"mixtral", kNumberedExperts, kMixtralRenames},
    SaveFamily{"nemotron_h", kNemotronHExperts, kNemotronHRenames},
    SaveFamily{"olmoe", kMlpExperts, {}},
    SaveFamily{"phimoe", kNumberedExperts, kPhiMoeRenames},
    SaveFamily{"qwen2_moe", kMlpExperts, {}},
    SaveFamily{"qwen3_5_moe_text", kMlpExperts, {}},
    SaveFamily{"qwen3_moe", kMlpExperts, {}},
    SaveFamily{"qwen3_next", kMlpExperts, {}},
    SaveFamily{"qwen3_omni_moe_text", kMlpExperts, {}},
    SaveFamily{"sarvam_mla", kMlpExperts, {}},
    SaveFamily{"sarvam_moe", kSarvamConversions, kSarvamRenames},
    SaveFamily{"solar_open", kMlpExperts, {}},
    SaveFamily{"qwen3_omni_moe", kMlpExperts, {}},
    SaveFamily{"unlimited_ocr_text", kMlpExperts, {}},
    // Experts fused, as they are held.
    SaveFamily{"aria_text", {}, kAriaTextRenames},
    SaveFamily{"gpt_oss", {}, {}},
    SaveFamily{"granitemoe", {}, kGraniteMoeRenames},
    SaveFamily{"granitemoe_swa", {}, {}},
    SaveFamily{"granitemoehybrid", {}, kGraniteMoeRenames},
    SaveFamily{"granitemoeshared", {}, kGraniteMoeRenames},
    SaveFamily{"hy_v4", {}, kHyV4Renames},
    SaveFamily{"hy_v4_vl_text", {}, kHyV4Renames},
    SaveFamily{"jetmoe", {}, {}},
    SaveFamily{"lara_mini", kLaraMiniConversions, kLaraMiniRenames},
    SaveFamily{"llama4", {}, {}},
    SaveFamily{"llama4_text", {}, {}},
    SaveFamily{"minimax_m3_vl_text", {}, {}},
    SaveFamily{"mistral4", {}, {}},
    SaveFamily{"muse_spark", {}, {}},
    SaveFamily{"qwen3_vl_moe", {}, {}},  // transposed on loading only: Transpose(check_dims)
    SaveFamily{"zaya", {}, {}},
    SaveFamily{"dory", {}, kDoryRenames},
    SaveFamily{"hrm_text", kHrmTextConversions, kHrmTextRenames},
    SaveFamily{"lfm3", {}, kLfm3Renames},
    SaveFamily{"olmo_hybrid", kOlmoHybridConversions, kOlmoHybridRenames},
    SaveFamily{"GPTNeoXForCausalLM", {}, kGptNeoXRenames},
    // No experts.
    SaveFamily{"esm", {}, kEsmRenames},
    SaveFamily{"exaone", {}, kExaoneRenames},  // a Llama
    SaveFamily{"gte", kGteConversions, kGteRenames},
    SaveFamily{"jev", {}, kJevRenames},
    SaveFamily{"jina_embeddings_v3", kJinaEmbeddingsConversions, kJinaEmbeddingsRenames},
    SaveFamily{"nomic_bert", kNomicBertConversions, kNomicBertRenames},
    SaveFamily{"t5gemma2_encoder", {}, kT5Gemma2EncoderRenames},
    SaveFamily{"timesfm2_5", {}, kTimesFmRenames},
    SaveFamily{"UltrabertForQuestionAnswering", {}, kUltraBertRenames},
    SaveFamily{"UltrabertForSequenceClassification", {}, kUltraBertRenames},
    SaveFamily{"UltrabertForTokenClassification", {}, kUltraBertRenames},
    SaveFamily{"UltrabertForMaskedLM", {}, kUltraBertMaskedLmRenames},
    SaveFamily{"UltraVBertForMaskedLM", {}, kUltraVBertMaskedLmRenames},
};

}  // namespace

std::span<const SaveFamily> text_families() { return kFamilies; }

}  // namespace shardkit::hf::internal
