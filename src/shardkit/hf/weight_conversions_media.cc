// Families of models of text with images or sound.
#include <array>

#include "shardkit/hf/save_rules_internal.h"

namespace shardkit::hf::internal {
namespace {

/// "llava" and, of the model inside, "LlavaModel".
constexpr std::array kLlavaRenames{rename("^model.language_model", "language_model.model"),
                                   rename("^model.multi_modal_projector", "multi_modal_projector"),
                                   rename("^model.vision_tower", "vision_tower"),
                                   rename("^lm_head", "language_model.lm_head")};
constexpr std::array kLlavaNextRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.image_newline", "image_newline"),
    rename("^model.multi_modal_projector", "multi_modal_projector"),
    rename("^model.vision_tower", "vision_tower"), rename("^lm_head", "language_model.lm_head")};
constexpr std::array kVideoLlavaRenames{
    rename("^model.language_model", "language_model.model"),
    rename("^model.multi_modal_projector", "multi_modal_projector"),
    rename("^model.video_tower", "video_tower"), rename("^model.image_tower", "image_tower"),
    rename("^lm_head", "language_model.lm_head")};
constexpr std::array kFuyuRenames{rename("^model.language_model", "language_model.model"),
                                  rename("^model.vision_embed_tokens", "vision_embed_tokens"),
                                  rename("^lm_head", "language_model.lm_head")};
constexpr std::array kMllamaRenames{rename("^model.language_model", "language_model.model"),
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
    rename("^model.audio_tower", "audio_tower"), rename("^lm_head", "language_model.lm_head")};
constexpr std::array kGraniteSpeechRenames{rename("^model.language_model", "language_model.model"),
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
/// Their models without a head hold the text model one level higher than it is saved.
constexpr std::array kTextModelRenames{rename("^language_model", "language_model.model")};
constexpr std::array kEmu3ModelRenames{rename("^text_model", "text_model.model")};
constexpr std::array kShieldGemma2Renames{
    rename("^model.model.language_model", "model.model.language_model.model")};
constexpr std::array kHunYuanVlRenames{
    rename("^model.vision_tower", "vit"),
    rename("^model.language_model", "model"),
    rename("patch_merger.", "perceive."),
    rename("perceive.proj_out.", "perceive.proj.2."),
    rename("perceive.proj_conv.", "perceive.proj.0."),
    rename("^vit.layers.#.layer_norm2.", "vit.layers.#.post_attention_layernorm."),
    rename("^vit.layers.#.layer_norm1.", "vit.layers.#.input_layernorm."),
    rename("mlp.fc2", "mlp.dense_4h_to_h"),
    rename("mlp.fc1", "mlp.dense_h_to_4h")};
constexpr auto kHyV4VlRenames =
    both(kHunYuanVlRenames, std::array{rename("perceive.before_rms.", "perceive.norm.")});
constexpr std::array kMolmo2Renames{
    rename("image_projector.up_proj", "image_projector.w3"),
    rename("image_projector.down_proj", "image_projector.w2"),
    rename("image_projector.gate_proj", "image_projector.w1"),
    rename("image_pooling_2d.o_proj", "image_pooling_2d.wo"),
    rename("image_pooling_2d.v_proj", "image_pooling_2d.wv"),
    rename("image_pooling_2d.k_proj", "image_pooling_2d.wk"),
    rename("image_pooling_2d.q_proj", "image_pooling_2d.wq"),
    rename(".layer_norm2", ".ffn_norm"),
    rename(".layer_norm1", ".attention_norm"),
    rename(".mlp.fc2", ".feed_forward.w2"),
    rename(".mlp.fc1", ".feed_forward.w1"),
    rename(".self_attn.o_proj", ".attention.wo"),
    rename(".self_attn.v_proj", ".attention.wv"),
    rename(".self_attn.k_proj", ".attention.wk"),
    rename(".self_attn.q_proj", ".attention.wq"),
    rename("multi_modal_projector.image_projector.", "vision_backbone.image_projector."),
    rename("multi_modal_projector.image_pooling_2d.", "vision_backbone.image_pooling_2d."),
    rename("vision_tower.layers.", "vision_backbone.image_vit.transformer.resblocks."),
    rename("vision_tower.", "vision_backbone.image_vit."),
    rename("language_model.layers.", "transformer.blocks."),
    rename("language_model.norm.", "transformer.ln_f."),
    rename("language_model.", "transformer.")};
constexpr std::array kMolmo2TextConversions{
    chunk("embed_tokens.weight", {"wte.embedding", "wte.new_embedding"}),
    join({"mlp.up_proj.weight", "mlp.gate_proj.weight"}, "mlp.ff_proj.weight"),
    join({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, "self_attn.att_proj")};
constexpr std::array kMolmo2TextRenames{
    rename("mlp.down_proj", "mlp.ff_out"), rename("self_attn.o_proj", "self_attn.attn_out"),
    rename(".post_attention_layernorm.", ".ff_norm."), rename(".input_layernorm.", ".attn_norm.")};
constexpr std::array kDeepseekOcr2Renames{
    rename("^language_model.norm.", "norm."),
    rename("model.language_model.norm.", "model.norm."),
    rename("^language_model.layers.", "layers."),
    rename("model.language_model.layers.", "model.layers."),
    rename("^language_model.embed_tokens.", "embed_tokens."),
    rename("model.language_model.embed_tokens.", "model.embed_tokens."),
    rename("view_separator", "view_seperator"),
    rename("multi_modal_projector.", "projector.layers."),
    rename("vision_tower.query_1024_resolution.", "qwen2_model.query_1024."),
    rename("vision_tower.query_768_resolution.", "qwen2_model.query_768."),
    rename("vision_tower.vision_encoder.norm.", "qwen2_model.model.model.norm."),
    rename("vision_tower.vision_encoder.layers.", "qwen2_model.model.model.layers."),
    rename("vision_tower.sam_encoder.proj.conv2.", "sam_model.net_3."),
    rename("vision_tower.sam_encoder.proj.conv1.", "sam_model.net_2."),
    rename("vision_tower.sam_encoder.neck.layer_norm2.", "sam_model.neck.3."),
    rename("vision_tower.sam_encoder.neck.conv2.", "sam_model.neck.2."),
    rename("vision_tower.sam_encoder.neck.layer_norm1.", "sam_model.neck.1."),
    rename("vision_tower.sam_encoder.neck.conv1.", "sam_model.neck.0."),
    rename("vision_tower.sam_encoder.pos_embed", "sam_model.pos_embed"),
    rename("vision_tower.sam_encoder.patch_embed.projection.", "sam_model.patch_embed.proj."),
    rename("vision_tower.sam_encoder.layers.#.mlp.", "sam_model.blocks.#.mlp."),
    rename("vision_tower.sam_encoder.layers.#.attn.", "sam_model.blocks.#.attn."),
    rename("vision_tower.sam_encoder.layers.#.layer_norm2.", "sam_model.blocks.#.norm2."),
    rename("vision_tower.sam_encoder.layers.#.layer_norm1.", "sam_model.blocks.#.norm1.")};
constexpr std::array kQianfanOcrConversions{
    join({"attention.q_proj.bias", "attention.k_proj.bias", "attention.v_proj.bias"},
         "attn.qkv.bias"),
    join({"attention.q_proj.weight", "attention.k_proj.weight", "attention.v_proj.weight"},
         "attn.qkv.weight")};
constexpr std::array kQianfanOcrRenames{
    rename("^model.multi_modal_projector.linear_2.", "mlp1.3."),
    rename("^model.multi_modal_projector.linear_1.", "mlp1.1."),
    rename("^model.multi_modal_projector.layer_norm.", "mlp1.0."),
    rename("^lm_head.", "language_model.lm_head."),
    rename("^model.language_model.", "language_model.model."),
    rename(".embeddings.patch_embeddings.projection.", ".embeddings.patch_embedding."),
    rename(".embeddings.position_embeddings", ".embeddings.position_embedding"),
    rename(".embeddings.cls_token", ".embeddings.class_embedding"),
    rename(".layernorm_after.", ".norm2."),
    rename(".layernorm_before.", ".norm1."),
    rename("layers.#.attention.projection_layer.", "layers.#.attn.proj."),
    rename(".lambda_2", ".ls2"),
    rename(".lambda_1", ".ls1"),
    rename("layers.", "encoder.layers."),
    rename("^model.vision_tower.", "vision_model.")};
constexpr std::array kUnlimitedOcrRenames{
    rename("^language_model.norm.", "norm."),
    rename("model.language_model.norm.", "model.norm."),
    rename("^language_model.layers.", "layers."),
    rename("model.language_model.layers.", "model.layers."),
    rename("^language_model.embed_tokens.", "embed_tokens."),
    rename("model.language_model.embed_tokens.", "model.embed_tokens."),
    rename("^multi_modal_projector.bias", "projector.layers.bias"),
    rename("model.multi_modal_projector.bias", "model.projector.layers.bias"),
    rename("^multi_modal_projector.weight", "projector.layers.weight"),
    rename("model.multi_modal_projector.weight", "model.projector.layers.weight"),
    rename("^view_separator", "view_seperator"),
    rename("model.view_separator", "model.view_seperator"),
    rename("^vision_tower.vision_encoder", "vision_model"),
    rename("model.vision_tower.vision_encoder", "model.vision_model"),
    rename("^vision_tower.sam_encoder", "sam_model"),
    rename("model.vision_tower.sam_encoder", "model.sam_model")};
constexpr std::array kPi0Renames{
    rename("^model.vlm.language_model.embed_tokens", "paligemma_with_expert.paligemma.lm_head"),
    rename("^model.dit.embed_tokens", "paligemma_with_expert.gemma_expert.lm_head"),
    rename("^model.dit", "paligemma_with_expert.gemma_expert.model"),
    rename("^model.vlm", "paligemma_with_expert.paligemma.model"),
    rename("embed_action_time.action_time_mlp_out", "action_time_mlp_out"),
    rename("embed_action_time.action_time_mlp_in", "action_time_mlp_in"),
    rename("embed_action_time.action_in_proj", "action_in_proj"),
    rename("embed_action_time.state_proj", "state_proj")};
constexpr std::array kUnlimitedOcrVisionConversions{
    join({".q_proj.bias", ".k_proj.bias", ".v_proj.bias"}, ".qkv_proj.bias"),
    join({".q_proj.weight", ".k_proj.weight", ".v_proj.weight"}, ".qkv_proj.weight")};
constexpr std::array kUnlimitedOcrVisionRenames{
    rename("^sam_encoder.proj.conv2.", "sam_encoder.net_3."),
    rename("^sam_encoder.proj.conv1.", "sam_encoder.net_2."),
    rename("^sam_encoder.neck.layer_norm2.", "sam_encoder.neck.3."),
    rename("^sam_encoder.neck.conv2.", "sam_encoder.neck.2."),
    rename("^sam_encoder.neck.layer_norm1.", "sam_encoder.neck.1."),
    rename("^sam_encoder.neck.conv1.", "sam_encoder.neck.0."),
    rename("^sam_encoder.patch_embed.projection.", "sam_encoder.patch_embed.proj."),
    rename("^sam_encoder.layers.#.mlp.", "sam_encoder.blocks.#.mlp."),
    rename("^sam_encoder.layers.#.attn.", "sam_encoder.blocks.#.attn."),
    rename("^sam_encoder.layers.#.layer_norm2.", "sam_encoder.blocks.#.norm2."),
    rename("^sam_encoder.layers.#.layer_norm1.", "sam_encoder.blocks.#.norm1."),
    rename("^vision_encoder.encoder", "vision_encoder.transformer")};
constexpr std::array kDots3NoteRenames{rename("^audio_tower.audio_adapter.", "audio_adapter."),
                                       rename("^audio_tower.", "audio_encoder."),
                                       rename("^vision_tower.", "vision_encoder."),
                                       rename("^language_model.embed_tokens.", "embed_tokens."),
                                       rename("^language_model.layers.", "layers."),
                                       rename("^language_model.norm.", "norm.")};
constexpr std::array kDots3NoteHeadRenames{
    rename("^model.vision_encoder.", "vision_encoder."),
    rename("^model.audio_encoder.", "audio_encoder."),
    rename("^model.audio_adapter.", "audio_adapter."),
    rename("^audio_adapter.", "audio_encoder.audio_adapter.")};
constexpr std::array kDots3NoteVisionConversions{
    unstack(".mlp.experts.down_proj", ".mlp.experts.*.fc2.weight"),
    unstack(".mlp.experts.gate_up_proj", ".mlp.experts.*.fc1.weight", ".mlp.experts.*.fc3.weight")};
constexpr std::array kDots3NoteVisionRenames{
    rename(".mlp.e_score_correction_bias", ".mlp.router_bias"),
    rename(".mlp.gate.weight", ".mlp.gate_weight"),
    rename("blocks.#.mlp.up_proj.", "blocks.#.mlp.fc3."),
    rename("blocks.#.mlp.down_proj.", "blocks.#.mlp.fc2."),
    rename("blocks.#.mlp.gate_proj.", "blocks.#.mlp.fc1."),
    rename("blocks.#.norm2.", "blocks.#.norm_2."),
    rename("blocks.#.norm1.", "blocks.#.norm_1."),
    rename("^merger.", "adapter."),
    rename("^norm.", "post_trunk_norm.")};

constexpr std::array kFamilies{
    SaveFamily{"aria", {}, kLlavaRenames},
    SaveFamily{"audioflamingo3", {}, kQwen2AudioRenames},
    SaveFamily{"aya_vision", {}, kLlavaRenames},
    SaveFamily{"cosmos3_edge", {}, kCosmos3EdgeRenames},
    SaveFamily{"cosmos3_omni", {}, kCosmos3OmniRenames},
    SaveFamily{"emu3", {}, kEmu3Renames},
    SaveFamily{"fuyu", {}, kFuyuRenames},
    SaveFamily{"gemma3", {}, kLlavaRenames},
    SaveFamily{"gemma4_unified", {}, kGemma4UnifiedRenames},
    SaveFamily{"glmasr", {}, kQwen2AudioRenames},
    SaveFamily{"got_ocr2", {}, kLlavaRenames},
    SaveFamily{"granite_speech", {}, kGraniteSpeechRenames},
    SaveFamily{"granite_speech_plus", {}, kGraniteSpeechRenames},
    SaveFamily{"hyperclovax_vision_v2", {}, kHyperClovaXRenames},
    SaveFamily{"internvl", {}, kLlavaRenames},
    SaveFamily{"llava", {}, kLlavaRenames},
    SaveFamily{"llava_next", {}, kLlavaNextRenames},
    SaveFamily{"llava_next_video", {}, kLlavaNextRenames},
    SaveFamily{"llava_onevision", {}, kLlavaNextRenames},
    SaveFamily{"mistral3", {}, kLlavaRenames},
    SaveFamily{"mllama", {}, kMllamaRenames},
    SaveFamily{"musicflamingo", {}, kQwen2AudioRenames},
    SaveFamily{"paddleocr_vl", {}, kPaddleOcrRenames},
    SaveFamily{"paligemma", {}, kLlavaRenames},
    SaveFamily{"qwen2_audio", {}, kQwen2AudioRenames},
    SaveFamily{"vibevoice_asr", {}, kVibeVoiceRenames},
    SaveFamily{"video_llava", {}, kVideoLlavaRenames},
    SaveFamily{"vipllava", {}, kLlavaRenames},
    SaveFamily{"voxtral", {}, kQwen2AudioRenames},
    SaveFamily{"voxtral_realtime", {}, kQwen2AudioRenames},
    SaveFamily{"Qwen2VLForConditionalGeneration", {}, kQwen2VlRenames},
    SaveFamily{"Qwen2_5OmniThinkerForConditionalGeneration", {}, kQwenOmniThinkerRenames},
    SaveFamily{"Qwen2_5_VLForConditionalGeneration", {}, kQwen2VlRenames},
    SaveFamily{"Qwen3OmniMoeThinkerForConditionalGeneration", {}, kQwenOmniThinkerRenames},
    // Without a head.
    SaveFamily{"Emu3Model", {}, kEmu3ModelRenames},
    SaveFamily{"AriaModel", {}, kTextModelRenames},
    SaveFamily{"AudioFlamingo3Model", {}, kTextModelRenames},
    SaveFamily{"AyaVisionModel", {}, kTextModelRenames},
    SaveFamily{"FuyuModel", {}, kTextModelRenames},
    SaveFamily{"Gemma3Model", {}, kTextModelRenames},
    SaveFamily{"GlmAsrModel", {}, kTextModelRenames},
    SaveFamily{"GotOcr2Model", {}, kTextModelRenames},
    SaveFamily{"GraniteSpeechModel", {}, kTextModelRenames},
    SaveFamily{"GraniteSpeechPlusModel", {}, kTextModelRenames},
    SaveFamily{"InternVLModel", {}, kTextModelRenames},
    SaveFamily{"LlavaModel", {}, kTextModelRenames},
    SaveFamily{"LlavaNextModel", {}, kTextModelRenames},
    SaveFamily{"LlavaNextVideoModel", {}, kTextModelRenames},
    SaveFamily{"LlavaOnevisionModel", {}, kTextModelRenames},
    SaveFamily{"Mistral3Model", {}, kTextModelRenames},
    SaveFamily{"MllamaModel", {}, kTextModelRenames},
    SaveFamily{"MusicFlamingoModel", {}, kTextModelRenames},
    SaveFamily{"PPChart2TableModel", {}, kTextModelRenames},
    SaveFamily{"PaliGemmaModel", {}, kTextModelRenames},
    SaveFamily{"Qwen2AudioModel", {}, kTextModelRenames},
    SaveFamily{"VibeVoiceAsrModel", {}, kTextModelRenames},
    SaveFamily{"VideoLlavaModel", {}, kTextModelRenames},
    SaveFamily{"VipLlavaModel", {}, kTextModelRenames},
    SaveFamily{"VoxtralModel", {}, kTextModelRenames},
    SaveFamily{"VoxtralRealtimeModel", {}, kTextModelRenames},
    SaveFamily{"paligemma model", {}, kTextModelRenames},
    // Renamed or cut in more places.
    SaveFamily{"deepseek_ocr2", kMlpExperts, kDeepseekOcr2Renames},
    SaveFamily{
        "Dots3NoteForConditionalGeneration", {}, kDots3NoteHeadRenames, "Dots3NoteModel", "model."},
    SaveFamily{"Dots3NoteModel", {}, kDots3NoteRenames},
    SaveFamily{"dots3_note_vision_encoder", kDots3NoteVisionConversions, kDots3NoteVisionRenames},
    SaveFamily{"hunyuan_vl", {}, kHunYuanVlRenames},
    SaveFamily{"hy_v4_vl", {}, kHyV4VlRenames},
    SaveFamily{"molmo2", {}, kMolmo2Renames},
    SaveFamily{"molmo2_text", kMolmo2TextConversions, kMolmo2TextRenames},
    SaveFamily{"pi0", {}, kPi0Renames},
    SaveFamily{"pp_chart2table", {}, kLlavaRenames},
    SaveFamily{"qianfan_ocr", kQianfanOcrConversions, kQianfanOcrRenames},
    SaveFamily{"qwen2_5_omni_thinker", {}, kQwenOmniThinkerRenames},
    SaveFamily{"qwen3_omni_moe_thinker", kMlpExperts, kQwenOmniThinkerRenames},
    SaveFamily{"shieldgemma2", {}, kShieldGemma2Renames},
    SaveFamily{"unlimited_ocr", {}, kUnlimitedOcrRenames},
    SaveFamily{"unlimited_ocr_vision", kUnlimitedOcrVisionConversions, kUnlimitedOcrVisionRenames},
};

}  // namespace

std::span<const SaveFamily> media_families() { return kFamilies; }

}  // namespace shardkit::hf::internal
