// Families whose rows transformers saves in another order, or transposed, or cut by config.json.
#include <array>

#include "shardkit/hf/save_rules_internal.h"

namespace shardkit::hf::internal {
namespace {

/// Rotary embeddings of images: the published models pair neighbouring rows.
constexpr std::array kKimiK25Conversions{
    join_heads({".attn.q_proj", ".attn.k_proj", ".attn.v_proj"}, ".wqkv", "vision_config"),
    kMlpExperts[0], kMlpExperts[1]};
constexpr std::array kKimiK25Renames{
    rename("^model.vision_tower.patch_embed.pos_emb.position_embeddings",
           "vision_tower.patch_embed.pos_emb.weight"),
    rename("layers", "blocks"),
    rename("^model.mm_projector.out_proj", "mm_projector.proj.2"),
    rename("^model.mm_projector.in_proj", "mm_projector.proj.0"),
    rename("^model.vision_tower.blocks.#.norm1", "model.vision_tower.blocks.#.norm0"),
    rename("^model.vision_tower.blocks.#.norm2", "model.vision_tower.blocks.#.norm1"),
    rename("^model.vision_tower.blocks.#.mlp.fc1", "model.vision_tower.blocks.#.mlp.fc0"),
    rename("^model.vision_tower.blocks.#.mlp.fc2", "model.vision_tower.blocks.#.mlp.fc1"),
    rename("^model.vision_tower.blocks.#.attn.proj", "model.vision_tower.blocks.#.wo"),
    rename("^model.vision_tower", "vision_tower.encoder"),
    rename("^lm_head", "language_model.lm_head"),
    rename("^model.language_model", "language_model.model")};
constexpr std::array kMistralLarge4Conversions{
    join_heads({"attention.k_proj."}, "attention.wk.", "vision_config"),
    join_heads({"attention.q_proj."}, "attention.wq.", "vision_config")};
constexpr std::array kMistralLarge4Renames{
    rename(".feed_forward.up_proj.", ".feed_forward.w3."),
    rename(".shared_experts.up_proj.", ".shared_experts.w3."),
    rename(".feed_forward.down_proj.", ".feed_forward.w2."),
    rename(".shared_experts.down_proj.", ".shared_experts.w2."),
    rename(".feed_forward.gate_proj.", ".feed_forward.w1."),
    rename(".shared_experts.gate_proj.", ".shared_experts.w1."),
    rename(".o_proj.", ".wo."),
    rename(".v_proj.", ".wv."),
    rename("^model.multi_modal_projector.linear_2.", "vision_language_adapter.w_out."),
    rename("^model.multi_modal_projector.linear_1.", "vision_language_adapter.w_in."),
    rename("^model.multi_modal_projector.patch_merger.", "patch_merger."),
    rename("^model.multi_modal_projector.norm.", "pre_mm_projector_norm."),
    rename("^lm_head.", "output."),
    rename("^model.language_model.norm.", "norm."),
    rename("^model.language_model.layers.", "layers."),
    rename("^model.language_model.rotary_emb.alpha", "lerope.alpha"),
    rename("^model.language_model.embed_tokens.", "tok_embeddings."),
    rename("^model.vision_tower.", "vision_encoder.")};
constexpr std::array kMistralLarge4TextRenames{rename(".softmax_scaling.bias", ".ssmax_scaling.b"),
                                               rename(".softmax_scaling.scale", ".ssmax_scaling.s"),
                                               rename(".mlp.shared_experts.", ".shared_experts."),
                                               rename(".mlp.experts.", ".experts."),
                                               rename(".mlp.gate.", ".gate."),
                                               rename(".mlp.", ".feed_forward."),
                                               rename(".kv_a_layernorm.", ".kv_a_norm."),
                                               rename(".post_attention_layernorm.", ".ffn_norm."),
                                               rename(".input_layernorm.", ".attention_norm."),
                                               rename(".kv_b_proj.", ".wkv_b."),
                                               rename(".kv_a_proj_with_mqa.", ".wkv_a_with_mqa."),
                                               rename(".q_proj.", ".wq."),
                                               rename(".self_attn.", ".attention.")};
constexpr std::array kStep3p7Conversions{
    chunk("mlp.experts.gate_up_proj", {"moe.gate_proj.weight", "moe.up_proj.weight"}, 1)};
constexpr std::array kStep3p7Renames{
    rename(".mlp.shared_experts.", ".share_expert."),
    rename(".mlp.experts.down_proj_scale_inv", ".moe.down_proj.weight_scale_inv"),
    rename(".mlp.experts.down_proj", ".moe.down_proj.weight"),
    rename(".mlp.gate.e_score_correction_bias", ".moe.router_bias"),
    rename(".mlp.gate.weight", ".moe.gate.weight"),
    rename("^model.language_model.norm.", "model.norm."),
    rename("^model.language_model.layers.", "model.layers."),
    rename("^model.language_model.embed_tokens.", "model.embed_tokens."),
    rename("^model.multi_modal_projector.", "vit_large_projector."),
    rename("^model.vision_model.", "vision_model.")};
constexpr std::array kStep3p5VisionConversions{
    join_heads({"attn.q_proj.bias", "attn.k_proj.bias", "attn.v_proj.bias"}, "attn.in_proj_bias",
               {}),
    join_heads({"attn.q_proj.weight", "attn.k_proj.weight", "attn.v_proj.weight"},
               "attn.in_proj_weight", {})};
constexpr std::array kStep3p5VisionRenames{
    rename(".layernorm_after.", ".ln_2."),
    rename(".layernorm_before.", ".ln_1."),
    rename(".self_attn.", ".attn."),
    rename(".mlp.fc2.", ".mlp.c_proj."),
    rename(".mlp.fc1.", ".mlp.c_fc."),
    rename(".lambda_2", ".ls_2.gamma"),
    rename(".lambda_1", ".ls_1.gamma"),
    rename("^downsampler2.", "vit_downsampler2."),
    rename("^downsampler1.", "vit_downsampler1."),
    rename("^pre_layernorm.", "ln_pre."),
    rename("^layers.", "transformer.resblocks."),
    rename("^embeddings.position_embedding.weight", "positional_embedding"),
    rename("^embeddings.patch_embedding.weight", "conv1.weight")};
constexpr std::array kGradiumConversions{
    join_heads({"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"},
               "self_attn.in_proj.weight", {})};
constexpr std::array kGradiumRenames{
    rename("^flow_head.final_layer.adaln_proj.",
           "flow_lm.flow_net.final_layer.adaLN_modulation.1."),
    rename("^flow_head.final_layer.proj.", "flow_lm.flow_net.final_layer.linear."),
    rename("^flow_head.layers.#.adaln_proj.", "flow_lm.flow_net.res_blocks.#.adaLN_modulation.1."),
    rename("^flow_head.layers.#.fc2.", "flow_lm.flow_net.res_blocks.#.mlp.2."),
    rename("^flow_head.layers.#.fc1.", "flow_lm.flow_net.res_blocks.#.mlp.0."),
    rename("^flow_head.layers.#.norm.", "flow_lm.flow_net.res_blocks.#.in_ln."),
    rename("^flow_head.input_proj.", "flow_lm.flow_net.input_proj."),
    rename("^flow_head.cond_proj.", "flow_lm.flow_net.cond_embed."),
    rename("^flow_head.timestep_embeddings.#.norm.weight",
           "flow_lm.flow_net.time_embed.#.mlp.3.alpha"),
    rename("^flow_head.timestep_embeddings.#.fc2.", "flow_lm.flow_net.time_embed.#.mlp.2."),
    rename("^flow_head.timestep_embeddings.#.fc1.", "flow_lm.flow_net.time_embed.#.mlp.0."),
    rename("^flow_head.timestep_embeddings.#.freqs", "flow_lm.flow_net.time_embed.#.freqs"),
    rename("^model.layers.#.post_attention_layernorm.", "flow_lm.transformer.layers.#.norm2."),
    rename("^model.layers.#.input_layernorm.", "flow_lm.transformer.layers.#.norm1."),
    rename("^model.layers.#.mlp.fc2.", "flow_lm.transformer.layers.#.linear2."),
    rename("^model.layers.#.mlp.fc1.", "flow_lm.transformer.layers.#.linear1."),
    rename("^model.layers.#.self_attn.o_proj.", "flow_lm.transformer.layers.#.self_attn.out_proj."),
    rename("^model.layers.#.self_attn.in_proj.", "flow_lm.transformer.layers.#.self_attn.in_proj."),
    rename("^eos_head.", "flow_lm.out_eos."),
    rename("^model.norm.", "flow_lm.out_norm."),
    rename("^latent_std", "flow_lm.emb_std"),
    rename("^latent_mean", "flow_lm.emb_mean"),
    rename("^model.bos_latent", "flow_lm.bos_emb"),
    rename("^model.audio_latent_proj.", "flow_lm.input_linear."),
    rename("^model.duration_delta_proj.",
           "flow_lm.condition_provider.conditioners.duration_delta.output_proj."),
    rename("^model.num_speakers_proj.",
           "flow_lm.condition_provider.conditioners.num_speakers.output_proj."),
    rename("^model.num_speakers_embed.",
           "flow_lm.condition_provider.conditioners.num_speakers.embed."),
    rename("^model.audio_prompt_proj.",
           "flow_lm.condition_provider.conditioners.speaker_wavs.output_proj."),
    rename("^model.embed_tokens.",
           "flow_lm.condition_provider.conditioners.transcript_in_segment.embed.")};
constexpr std::array kNemoSpeechConversions{
    transpose(".mixer.experts.down_proj", ".mixer.experts.down_projs"),
    transpose(".mixer.experts.up_proj", ".mixer.experts.gate_and_up_projs"),
    join({".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".self_attn.v_proj.weight"},
         ".attn.w_qkv.weight")};
constexpr std::array kNemoSpeechRenames{
    rename(".mixer.dt_bias", ".mixer._fp32_params.dt_bias"),
    rename(".mixer.D", ".mixer._fp32_params.D"),
    rename(".mixer.A_log", ".mixer._fp32_params.A_log"),
    rename(".mlp.fc2.", ".ffn.net.3."),
    rename(".mlp.fc1.", ".ffn.net.0."),
    rename(".self_attn.k_norm.", ".attn.k_norm."),
    rename(".self_attn.q_norm.", ".attn.q_norm."),
    rename(".self_attn.o_proj.", ".attn.out_proj."),
    rename(".layer_norm2.", ".norm2."),
    rename(".layer_norm1.", ".norm1."),
    rename(".layer_norm.", ".final_norm."),
    rename(".input_layer_norm.", ".embed_norm."),
    rename(".embedder.projection.", ".pre_encode.proj."),
    rename("^lm_head.", "llm.lm_head."),
    rename("^model.language_model.layers.", "llm.model.layers."),
    rename("^model.language_model.norm_f.", "llm.model.norm."),
    rename("^model.language_model.embeddings.", "llm.model.embed_tokens."),
    rename("^model.multi_modal_projector.", "perception.proj."),
    rename("^model.audio_tower.speaker_norm.", "perception.encoder.diar_norm."),
    rename("^model.audio_tower.asr_norm.", "perception.encoder.asr_norm."),
    rename("^model.audio_tower.diarization_model.silence_embeds",
           "perception.encoder.diarization_model.sortformer_modules.learnable_sil_emb"),
    rename("^model.audio_tower.diarization_model.classifier.out_proj.",
           "perception.encoder.diarization_model.sortformer_modules.single_hidden_to_spks."),
    rename("^model.audio_tower.diarization_model.classifier.dense.",
           "perception.encoder.diarization_model.sortformer_modules.first_hidden_to_hidden."),
    rename("^model.audio_tower.diarization_model.model.upsampler.conv.",
           "perception.encoder.diarization_model.sortformer_modules.subpixel_upsample."),
    rename("^model.audio_tower.diarization_model.model.proj.",
           "perception.encoder.diarization_model.sortformer_modules.encoder_proj."),
    rename("^word_timestamp_head.", "ctc_timestamp.decoder.decoder_layers.0."),
    rename("^model.word_timestamp_encoder.upsampler.", "ctc_timestamp.decoder.upsample."),
    rename("^model.word_timestamp_encoder.", "ctc_timestamp.decoder.transformer."),
    rename("^model.audio_tower.diarization_model.model.audio_tower.",
           "perception.encoder.diarization_model.encoder."),
    rename("^model.audio_tower.asr_encoder.", "perception.encoder.asr_encoder.")};
constexpr std::array kQwen4ExpConversions{
    shards("ngram_embedding.weight", "ngram_embedding.shard_*.weight"), kMlpExperts[0],
    kMlpExperts[1]};

/// Gate and up projections whose rows alternate.
constexpr std::array kInklingConversions{
    interleave(0, {"mlp.gate_proj.weight", "mlp.up_proj.weight"}, "mlp.w13_dn.weight"),
    interleave(1, {"mlp.experts.gate_up_proj"}, "mlp.experts.w13_weight"),
    interleave(1, {"gate_proj", "up_proj"}, "shared_w13_weight")};
constexpr std::array kInklingRenames{
    rename("input_layernorm", "attn_norm"),
    rename("post_attention_layernorm", "mlp_norm"),
    rename("mlp_sconv.conv1d.weight", "mlp_sconv.weight"),
    rename("attn_sconv.conv1d.weight", "attn_sconv.weight"),
    rename(".self_attn.rel_logits_proj", ".attn.rel_logits_proj"),
    rename(".self_attn.v_sconv.conv1d", ".attn.v_sconv"),
    rename(".self_attn.k_sconv.conv1d", ".attn.k_sconv"),
    rename(".self_attn.k_norm", ".attn.k_norm"),
    rename(".self_attn.q_norm", ".attn.q_norm"),
    rename("self_attn.o_proj", "attn.wo_ud"),
    rename("self_attn.r_proj", "attn.wr_du"),
    rename("self_attn.v_proj", "attn.wv_dv"),
    rename("self_attn.k_proj", "attn.wk_dv"),
    rename("self_attn.q_proj", "attn.wq_du"),
    rename("mlp.gate.e_score_correction_bias", "mlp.gate.bias"),
    rename("mlp.down_proj.weight", "mlp.w2_md.weight"),
    rename("mlp.experts.down_proj", "mlp.experts.w2_weight"),
    rename("down_proj", "shared_w2_weight"),
    rename("audio_tower.norm.weight", "audio_tower.final_norm.weight"),
    rename("audio_tower.embed_audio_tokens.embed_audio_tokens.weight",
           "audio_tower.encoder.weight"),
    rename("vision_tower.encoder_layers.#.layer_norm", "vision_tower.layers.norm_#"),
    rename("vision_tower.encoder_layers.#.projection", "vision_tower.layers.linear_#"),
    rename("model.vision_tower", "model.visual"),
    rename("model.audio_tower.", "model.audio."),
    rename("lm_head.weight", "model.llm.unembed.weight"),
    rename("model.language_model.norm.weight", "model.llm.norm.weight"),
    rename("model.language_model.embed_tokens.weight", "model.llm.embed.weight"),
    rename("model.language_model.embed_tokens.embed_norm.weight", "model.llm.embed_norm.weight"),
    rename("model.language_model.layers", "model.llm.layers")};
constexpr std::array kInkling2TextConversions{
    interleave(1, {"mlp.experts.gate_up_proj_scale_inv"}, "mlp.experts.w13_weight_scale"),
    interleave(1, {"mlp.experts.gate_up_proj"}, "mlp.experts.w13_weight")};
constexpr std::array kInkling2TextRenames{
    rename("final_input.query", "attn_res.output_query"),
    rename("layers.#.mlp_input.query", "attn_res.mlp_queries.#"),
    rename_minus_one("layers.#.attention_input.query", "attn_res.attn_queries.#"),
    rename("q_input_layernorm", "q_input_norm"),
    rename("k_input_layernorm", "k_input_norm"),
    rename("v_input_layernorm", "v_input_norm"),
    rename("input_layernorm", "attn_norm"),
    rename("post_attention_layernorm", "mlp_norm"),
    rename("convolution.weight_proj.weight", "convolution.weight_proj"),
    rename("sconv.weight_proj.weight", "sconv.weight_proj"),
    rename("convolution.static_weight", "convolution.static_w"),
    rename("sconv.static_weight", "sconv.static_w"),
    rename("convolution.conv1d.weight", "convolution.weight"),
    rename("sconv.conv1d.weight", "sconv.weight"),
    rename("post_mlp_convolution.", "mlp_sconv."),
    rename("post_attention_convolution.", "attn_sconv."),
    rename("self_attn.sink_proj", "self_attn.attn_sink_proj"),
    rename("self_attn.o_proj.gate_proj", "self_attn.gate_attn"),
    rename("self_attn.o_proj.linear", "self_attn.wo_ud"),
    rename("self_attn.relative_position_bias.norm.", "self_attn.rel_l2_clip."),
    rename("self_attn.q_proj.norm.", "self_attn.q_l2_clip."),
    rename("self_attn.relative_position_bias.linear", "self_attn.wr_du"),
    rename("self_attn.relative_position_bias.", "self_attn.rel_logits_proj."),
    rename("self_attn.v_proj.sconv.", "self_attn.v_sconv."),
    rename("self_attn.k_proj.sconv.", "self_attn.k_sconv."),
    rename("self_attn.v_proj.linear", "self_attn.wv_dv"),
    rename("self_attn.k_proj.linear", "self_attn.wk_dv"),
    rename("self_attn.q_proj.linear", "self_attn.wq_du"),
    rename(".self_attn.", ".attn."),
    rename("mlp.gate.e_score_correction_bias", "mlp.gate.bias"),
    rename("mlp.experts.down_proj_scale_inv", "mlp.experts.w2_weight_scale"),
    rename("mlp.experts.down_proj", "mlp.experts.w2_weight"),
    rename("embed_tokens.embed_norm.", "embed_norm."),
    rename("embed_tokens.weight", "embed.weight"),
    rename("model.", "model.llm."),
    rename("lm_head.", "model.llm.unembed.")};
constexpr std::array kInkling2Renames{
    rename("vision_tower.layers.#.lambda_2", "vision_tower.layers.#.ls_2.gamma"),
    rename("vision_tower.layers.#.lambda_1", "vision_tower.layers.#.ls_1.gamma"),
    rename("vision_tower.layers.#.mlp.fc2.", "vision_tower.layers.#.mlp.c_proj."),
    rename("vision_tower.layers.#.mlp.fc1.", "vision_tower.layers.#.mlp.c_fc."),
    rename("vision_tower.layers.#.layernorm_after.", "vision_tower.layers.#.ln_2."),
    rename("vision_tower.layers.#.layernorm_before.", "vision_tower.layers.#.ln_1."),
    rename("vision_tower.merger.linear_2.", "vision_tower.proj_out."),
    rename("vision_tower.merger.linear_1.", "vision_tower.proj_in."),
    rename("vision_tower.layers.", "vision_tower.backbone.layers."),
    rename("vision_tower.pre_layernorm.", "vision_tower.backbone.ln_pre."),
    rename("vision_tower.embeddings.position_embedding.weight",
           "vision_tower.embeddings.position_embedding"),
    rename("vision_tower.embeddings.", "vision_tower.backbone.embeddings."),
    rename("model.vision_tower.", "model.visual."),
    rename("model.language_model.", "model.llm."),
    rename("lm_head.", "model.llm.unembed.")};
constexpr std::array kInkling2LoopConversions{
    interleave(1, {"mlp.experts.gate_up_proj"}, "mlp.experts.w13_weight"),
    pairs("message_input.query", "middle_cycle_cross_pass_queries",
          "middle_cycle_cross_pass_kv_queries")};
constexpr auto kInkling2LoopRenames =
    both(kInkling2TextRenames,
         std::array{rename("_message_gate.forget_gate_proj.weight", "_message_gate.forget_weight"),
                    rename("_message_gate.message_gate_proj.weight", "_message_gate.gain_weight"),
                    rename("_message_gate.down_proj.weight", "_message_gate.down_weight"),
                    rename("mlp_message_gate.", "controllers.mlp."),
                    rename("v_message_gate.", "controllers.v."),
                    rename("k_message_gate.", "controllers.k."),
                    rename("q_message_gate.", "controllers.attn.")});

constexpr std::array kFamilies{
    SaveFamily{"gradium_phonon_tts", kGradiumConversions, kGradiumRenames},
    SaveFamily{"inkling2", {}, kInkling2Renames},
    SaveFamily{"inkling2_loop", {}, kInkling2Renames},
    SaveFamily{"inkling2_loop_text", kInkling2LoopConversions, kInkling2LoopRenames},
    SaveFamily{"inkling2_text", kInkling2TextConversions, kInkling2TextRenames},
    SaveFamily{"inkling_mm_model", kInklingConversions, kInklingRenames},
    SaveFamily{"kimi_k25", kKimiK25Conversions, kKimiK25Renames},
    SaveFamily{"mistral_large4", kMistralLarge4Conversions, kMistralLarge4Renames},
    SaveFamily{"mistral_large4_text", kNumberedExperts, kMistralLarge4TextRenames},
    SaveFamily{"nemo_speechlm", kNemoSpeechConversions, kNemoSpeechRenames},
    SaveFamily{"qwen4_exp_text", kQwen4ExpConversions, {}},
    SaveFamily{"step3p5_vision", kStep3p5VisionConversions, kStep3p5VisionRenames},
    SaveFamily{"step3p7", kStep3p7Conversions, kStep3p7Renames},
};

}  // namespace

std::span<const SaveFamily> reordered_families() { return kFamilies; }

}  // namespace shardkit::hf::internal
