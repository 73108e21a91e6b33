// Families of models of sound.
#include <array>

#include "shardkit/hf/save_rules_internal.h"

namespace shardkit::hf::internal {
namespace {

constexpr std::array kCohereAsrRenames{
    rename("proj_out", "log_softmax.mlp.layer0"),
    rename(".conv.norm", ".conv.batch_norm"),
    rename(".final_layernorm.", ".layer_norm_3."),
    rename(".post_attention_layernorm.", ".layer_norm_2."),
    rename(".input_layernorm.", ".layer_norm_1."),
    rename(".mlp.fc2", ".third_sub_layer.dense_out"),
    rename(".mlp.fc1", ".third_sub_layer.dense_in"),
    rename(".encoder_attn.o_proj", ".second_sub_layer.out_projection"),
    rename(".encoder_attn.v_proj", ".second_sub_layer.value_net"),
    rename(".encoder_attn.k_proj", ".second_sub_layer.key_net"),
    rename(".encoder_attn.q_proj", ".second_sub_layer.query_net"),
    rename("decoder.*.self_attn.o_proj", "decoder.*.first_sub_layer.out_projection"),
    rename("decoder.*.self_attn.v_proj", "decoder.*.first_sub_layer.value_net"),
    rename("decoder.*.self_attn.k_proj", "decoder.*.first_sub_layer.key_net"),
    rename("decoder.*.self_attn.q_proj", "decoder.*.first_sub_layer.query_net"),
    rename("encoder.*.self_attn.bias_v", "encoder.*.self_attn.pos_bias_v"),
    rename("encoder.*.self_attn.bias_u", "encoder.*.self_attn.pos_bias_u"),
    rename("encoder.*.self_attn.relative_k_proj", "encoder.*.self_attn.linear_pos"),
    rename("encoder.*.self_attn.o_proj", "encoder.*.self_attn.linear_out"),
    rename("encoder.*.self_attn.v_proj", "encoder.*.self_attn.linear_v"),
    rename("encoder.*.self_attn.k_proj", "encoder.*.self_attn.linear_k"),
    rename("encoder.*.self_attn.q_proj", "encoder.*.self_attn.linear_q"),
    rename("decoder.proj.", "encoder_decoder_proj."),
    rename("decoder.layers", "transf_decoder._decoder.layers"),
    rename("decoder.norm", "transf_decoder._decoder.final_layer_norm"),
    rename("decoder.embedding_layernorm", "transf_decoder._embedding.layer_norm"),
    rename("decoder.embed_tokens", "transf_decoder._embedding.token_embedding"),
    rename("decoder.pos_emb.weight", "transf_decoder._embedding.position_embedding.pos_enc"),
    rename("encoder.subsampling.linear.", "encoder.pre_encode.out."),
    rename("encoder.subsampling.layers.", "encoder.pre_encode.conv.")};
constexpr std::array kDots3NoteAudioRenames{
    rename("^conv_stem.", "speech_encoder.conv_stem."),
    rename("^layers.", "speech_encoder.layers."),
    rename("^layer_norm.", "speech_encoder.layer_norm."),
    rename("speech_encoder.layers.#.mlp.down_proj.", "speech_encoder.layers.#.fc2."),
    rename("speech_encoder.layers.#.mlp.gate_up_proj.", "speech_encoder.layers.#.fc1."),
    rename(".post_attention_layernorm.", ".final_layer_norm."),
    rename(".input_layernorm.", ".self_attn_layer_norm."),
    rename("speech_encoder.layers.#.self_attn.o_proj.",
           "speech_encoder.layers.#.self_attn.out_proj."),
    rename("conv_stem.convs.2.", "conv_stem.conv2d3."),
    rename("conv_stem.convs.1.", "conv_stem.conv2d2."),
    rename("conv_stem.convs.0.", "conv_stem.conv2d1."),
    rename("speech_encoder.conv_stem.conv2d1.", "speech_encoder.conv2d1."),
    rename("speech_encoder.conv_stem.conv2d2.", "speech_encoder.conv2d2."),
    rename("speech_encoder.conv_stem.conv2d3.", "speech_encoder.conv2d3."),
    rename("speech_encoder.conv_stem.conv_out.", "speech_encoder.conv_out."),
    rename("speech_encoder.", "dots_encoder.speech_encoder."),
    rename("^adapter.fc2.", "adapter.proj.3."),
    rename("^adapter.fc1.", "adapter.proj.1."),
    rename("^adapter.norm.", "adapter.proj.0."),
    rename("^adapter.", "audio_adapter.")};
constexpr std::array kNemotronOmniRenames{
    rename("^embed_audio.linear_2.", "sound_projection.linear2."),
    rename("^embed_audio.linear_1.", "sound_projection.linear1."),
    rename("^embed_audio.layer_norm.", "sound_projection.norm."),
    rename("^audio_tower.", "sound_encoder.encoder."),
    rename("^vision_final_layernorm.", "vision_projector.vision_final_layernorm."),
    rename("^multi_modal_projector.linear_2.", "mlp1.3."),
    rename("^multi_modal_projector.linear_1.", "mlp1.1."),
    rename("^multi_modal_projector.layer_norm.", "mlp1.0.")};
constexpr std::array kMimiRenames{rename("^decoder.decoder_seanet.layers", "decoder.layers"),
                                  rename("^encoder.encoder_seanet.layers", "encoder.layers"),
                                  rename("^decoder.decoder.layers", "decoder.layers"),
                                  rename("^decoder.decoder_transformer.", "decoder_transformer."),
                                  rename("^decoder.upsample.", "upsample."),
                                  rename("^encoder.downsample.", "downsample."),
                                  rename("^encoder.encoder_transformer.", "encoder_transformer."),
                                  rename("^encoder.encoder.layers", "encoder.layers")};
constexpr std::array kMimiEncoderRenames{rename("^encoder_seanet.layers", "encoder.layers")};
constexpr std::array kMimiDecoderRenames{rename("^decoder_seanet.layers", "decoder.layers")};

constexpr std::array kFamilies{
    SaveFamily{"cohere_asr", {}, kCohereAsrRenames},
    SaveFamily{"dots3_note_audio_encoder", {}, kDots3NoteAudioRenames},
    SaveFamily{"mimi", {}, kMimiRenames},
    SaveFamily{"mimi_decoder", {}, kMimiDecoderRenames},
    SaveFamily{"mimi_encoder", {}, kMimiEncoderRenames},
    SaveFamily{"nemotron_h_omni", {}, kNemotronOmniRenames},
};

}  // namespace

std::span<const SaveFamily> sound_families() { return kFamilies; }

}  // namespace shardkit::hf::internal
