// Families of models of images.
#include <array>

#include "shardkit/hf/save_rules_internal.h"

namespace shardkit::hf::internal {
namespace {

/// "ViTModel", which many image models share.
constexpr std::array kViTRenames{rename("mlp.fc2", "output.dense"),
                                 rename("mlp.fc1", "intermediate.dense"),
                                 rename("attention.o_proj", "attention.output.dense"),
                                 rename("v_proj", "attention.value"),
                                 rename("k_proj", "attention.key"),
                                 rename("q_proj", "attention.query"),
                                 rename("layers.", "encoder.layer.")};
constexpr std::array kBeitRenames{
    rename("relative_position_bias.relative_position_bias_table",
           "attention.attention.relative_position_bias.relative_position_bias_table"),
    rename("shared_position_bias", "encoder.relative_position_bias"),
    rename("mlp.fc2", "output.dense"),
    rename("mlp.fc1", "intermediate.dense"),
    rename("attention.o_proj", "attention.output.dense"),
    rename("v_proj", "attention.value"),
    rename("k_proj", "attention.key"),
    rename("q_proj", "attention.query"),
    rename("layers.", "encoder.layer.")};
constexpr std::array kBeitBackboneRenames{rename("mlp.fc2", "output.dense"),
                                          rename("mlp.fc1", "intermediate.dense"),
                                          rename("attention.o_proj", "attention.output.dense"),
                                          rename("v_proj", "attention.value"),
                                          rename("k_proj", "attention.key"),
                                          rename("q_proj", "attention.query"),
                                          rename("^beit.embeddings.", "embeddings."),
                                          rename("^beit.encoder.layer.", "encoder.layer."),
                                          rename("^fpn.fpn2.", "fpn2.0."),
                                          rename("^fpn.fpn1.conv_transpose2.", "fpn1.3."),
                                          rename("^fpn.fpn1.normalization.", "fpn1.1."),
                                          rename("^fpn.fpn1.conv_transpose1.", "fpn1.0.")};
constexpr std::array kBeitSegmentationRenames{
    rename("decode_head.psp_modules.blocks.#.conv.normalization.",
           "decode_head.psp_modules.#.1.bn."),
    rename("decode_head.psp_modules.blocks.#.conv.convolution.weight",
           "decode_head.psp_modules.#.1.conv.weight"),
    rename("decode_head.psp_bottleneck.", "decode_head.bottleneck."),
    rename("^fpn.fpn2.", "fpn2.0."),
    rename("^fpn.fpn1.conv_transpose2.", "fpn1.3."),
    rename("^fpn.fpn1.normalization.", "fpn1.1."),
    rename("^fpn.fpn1.conv_transpose1.", "fpn1.0."),
    rename("convolution.weight", "conv.weight"),
    rename("normalization.", "bn.")};
constexpr std::array kViTMsnHeadRenames{rename("^vit.encoder.", "encoder.")};
constexpr std::array kDinov2Conversions{
    join({"mlp.gate_proj.bias", "mlp.up_proj.bias"}, "mlp.weights_in.bias"),
    join({"mlp.gate_proj.weight", "mlp.up_proj.weight"}, "mlp.weights_in.weight")};
constexpr std::array kDinov2Renames{rename("mlp.down_proj", "mlp.weights_out"),
                                    rename("attention.o_proj", "attention.output.dense"),
                                    rename("attention.v_proj", "attention.attention.value"),
                                    rename("attention.k_proj", "attention.attention.key"),
                                    rename("attention.q_proj", "attention.attention.query")};
constexpr std::array kPixioRenames{
    rename("^pixio.", "encoder."),           rename("layernorm_after", "norm2"),
    rename("layernorm_before", "norm1"),     rename("mlp.fc2", "output.dense"),
    rename("mlp.fc1", "intermediate.dense"), rename("attention.o_proj", "attention.output.dense"),
    rename("v_proj", "attention.value"),     rename("k_proj", "attention.key"),
    rename("q_proj", "attention.query"),     rename("layers.", "encoder.layer.")};
constexpr std::array kRadioConversions{
    join({"attention.q_proj", "attention.k_proj", "attention.v_proj"}, "attn.qkv")};
constexpr std::array kRadioRenames{
    rename("summary_idxs", "radio_model.summary_idxs"),
    rename("input_conditioner", "radio_model.input_conditioner"),
    rename("attention.o_proj", "attn.proj"),
    rename("encoder.layer", "radio_model.model.blocks"),
    rename("embeddings.cls_register_token", "radio_model.model.patch_generator.cls_token.token"),
    rename("embeddings.position_embedding", "radio_model.model.patch_generator.pos_embed"),
    rename("embeddings.patch_projection", "radio_model.model.patch_generator.embedder"),
    rename("embeddings.video_patch_projection",
           "radio_model.model.patch_generator.video_embedder")};
constexpr std::array kSwinRenames{
    rename("mlp.fc2", "output.dense"),
    rename("mlp.fc1", "intermediate.dense"),
    rename("attention.o_proj", "attention.output.dense"),
    rename("attention.relative_position_bias.relative_position_bias_table",
           "attention.self.relative_position_bias_table"),
    rename("attention.v_proj", "attention.self.value"),
    rename("attention.k_proj", "attention.self.key"),
    rename("attention.q_proj", "attention.self.query")};
constexpr std::array kSwinBackboneRenames{rename("^swin.embeddings.", "embeddings."),
                                          rename("^swin.encoder.", "encoder.")};
constexpr std::array kSegformerRenames{
    rename("layernorm_after", "layer_norm_2"),
    rename("layernorm_before", "layer_norm_1"),
    rename("mlp.fc2", "mlp.dense2"),
    rename("mlp.fc1", "mlp.dense1"),
    rename("attention.o_proj", "attention.output.dense"),
    rename("attention.sequence_reduction.layer_norm", "attention.self.layer_norm"),
    rename("attention.sequence_reduction.sequence_reduction", "attention.self.sr"),
    rename("attention.v_proj", "attention.self.value"),
    rename("attention.k_proj", "attention.self.key"),
    rename("attention.q_proj", "attention.self.query"),
    rename("stages.#.layer_norm", "encoder.layer_norm.#"),
    rename("stages.#.blocks.", "encoder.block.#."),
    rename("stages.#.patch_embeddings.", "encoder.patch_embeddings.#.")};
constexpr std::array kSegformerHeadRenames{
    rename("decode_head.linear_projections", "decode_head.linear_c")};
constexpr std::array kVideoMaeRenames{
    rename("attention.attention.value.bias", "attention.attention.v_bias"),
    rename("attention.attention.query.bias", "attention.attention.q_bias")};
constexpr std::array kAltClipRenames{rename("layers.", "layer.")};
constexpr std::array kDinov3ConvNextRenames{rename("model.stages", "stages")};
constexpr std::array kDinov3ViTRenames{rename("model.layer.", "layer.")};
constexpr std::array kYolosRenames{
    rename("encoder.interpolation.mid_position_embeddings", "encoder.mid_position_embeddings")};
constexpr std::array kLfm3VlVisionRenames{rename("k_norm", "k_layernorm"),
                                          rename("q_norm", "q_layernorm"),
                                          rename("patch_embed", "patchifier")};
constexpr std::array kSapiens2Conversions{
    join({"mlp.gate_proj.bias", "mlp.up_proj.bias"}, "ffn.w12.bias"),
    join({"mlp.gate_proj.weight", "mlp.up_proj.weight"}, "ffn.w12.weight")};
constexpr std::array kSapiens2Renames{
    rename("^norm.", "ln1."),
    rename(".norm2.", ".ln2."),
    rename(".norm1.", ".ln1."),
    rename("mlp.down_proj.", "ffn.w3."),
    rename("layer_scale1.lambda1", "attn.gamma.weight"),
    rename("attention.k_norm.", "attn.k_norm."),
    rename("attention.q_norm.", "attn.q_norm."),
    rename("attention.v_proj.", "attn.wv."),
    rename("attention.k_proj.", "attn.wk."),
    rename("attention.q_proj.", "attn.wq."),
    rename("attention.o_proj.", "attn.proj."),
    rename("model.layer.#.", "blocks.#."),
    rename("^embeddings.patch_embeddings.", "patch_embed.projection."),
    rename("^embeddings.register_tokens", "storage_tokens"),
    rename("^embeddings.cls_token", "cls_token")};
/// Of each head of Sapiens 2, and what some have besides.
constexpr std::array kSapiens2Head{
    rename("decode_head.conv_layers.0.convolution.", "decode_head.conv_layers.0."),
    rename("decode_head.conv_layers.1.convolution.", "decode_head.conv_layers.3."),
    rename("^model.", "backbone.")};
constexpr std::array kSapiens2ThirdConvolution{
    rename("decode_head.conv_layers.2.convolution.", "decode_head.conv_layers.6.")};
constexpr std::array kSapiens2Deconvolutions{
    rename("decode_head.upsample_layers.0.convolution.weight",
           "decode_head.deconv_layers.0.weight"),
    rename("decode_head.upsample_layers.1.convolution.weight",
           "decode_head.deconv_layers.3.weight")};
constexpr std::array kSapiens2MoreDeconvolutions{
    rename("decode_head.upsample_layers.3.convolution.weight",
           "decode_head.deconv_layers.9.weight"),
    rename("decode_head.upsample_layers.2.convolution.weight",
           "decode_head.deconv_layers.6.weight")};
constexpr auto kSapiens2Upsampling = both(
    kSapiens2ThirdConvolution,
    std::array{
        rename("decode_head.upsample_layers.#.convolution.", "decode_head.upsample_blocks.#.0."),
        rename("decode_head.input_conv.convolution.", "decode_head.input_conv.0.")});
constexpr std::array kSapiens2Scale{
    rename("scale_head.predictor.proj.", "decode_head.scale_final_layer.5."),
    rename("scale_head.predictor.block2.layers.0.", "decode_head.scale_final_layer.3."),
    rename("scale_head.predictor.block1.layers.0.", "decode_head.scale_final_layer.1."),
    rename("scale_head.conv_layers.2.convolution.", "decode_head.scale_conv_layers.6."),
    rename("scale_head.conv_layers.1.convolution.", "decode_head.scale_conv_layers.3."),
    rename("scale_head.conv_layers.0.convolution.", "decode_head.scale_conv_layers.0.")};
constexpr auto kSapiens2Segmentation =
    both(std::array{rename("decode_head.predictor.", "decode_head.conv_seg.")},
         both(both(kSapiens2MoreDeconvolutions, kSapiens2Deconvolutions), kSapiens2Head));
constexpr auto kSapiens2Pose =
    both(std::array{rename("decode_head.predictor.", "decode_head.conv_pose.")},
         both(both(kSapiens2ThirdConvolution, kSapiens2Deconvolutions), kSapiens2Head));
constexpr auto kSapiens2Normal =
    both(std::array{rename("decode_head.predictor.", "decode_head.conv_normal.")},
         both(kSapiens2Upsampling, kSapiens2Head));
constexpr auto kSapiens2Pointmap =
    both(std::array{rename("decode_head.predictor.", "decode_head.conv_pointmap.")},
         both(kSapiens2Scale, both(kSapiens2Upsampling, kSapiens2Head)));
constexpr auto kSapiens2Matting =
    both(std::array{rename("decode_head.predictor.", "decode_head.conv_matting.")},
         both(kSapiens2Upsampling, kSapiens2Head));
constexpr std::array kTipsv2Renames{rename("vision_model", "vision_encoder"),
                                    rename("text_model", "text_encoder")};
constexpr std::array kTipsv2TextConversions{
    join({".q_proj.bias", ".k_proj.bias", ".v_proj.bias"}, ".in_proj_bias"),
    join({".q_proj.weight", ".k_proj.weight", ".v_proj.weight"}, ".in_proj_weight")};
constexpr std::array kTipsv2TextRenames{rename(".mlp.fc2.", ".mlp.c_proj."),
                                        rename(".mlp.fc1.", ".mlp.c_fc."),
                                        rename(".self_attn.", ".attn."),
                                        rename(".layer_norm2.", ".ln_2."),
                                        rename(".layer_norm1.", ".ln_1."),
                                        rename("encoder.layers.", "transformer.resblocks."),
                                        rename("embeddings.token_embedding.", "token_embedding."),
                                        rename("final_layer_norm.", "ln_final.")};
constexpr std::array kTipsv2VisionConversions{
    join({".attention.q_proj.bias", ".attention.k_proj.bias", ".attention.v_proj.bias"},
         ".attn.qkv.bias"),
    join({".attention.q_proj.weight", ".attention.k_proj.weight", ".attention.v_proj.weight"},
         ".attn.qkv.weight"),
    join({".mlp.gate_proj.bias", ".mlp.up_proj.bias"}, ".mlp.w12.bias"),
    join({".mlp.gate_proj.weight", ".mlp.up_proj.weight"}, ".mlp.w12.weight")};
constexpr std::array kTipsv2VisionRenames{
    rename(".mlp.down_proj.", ".mlp.w3."),
    rename(".mlp.fc2.", ".mlp.c_proj."),
    rename(".mlp.fc1.", ".mlp.c_fc."),
    rename(".layer_scale2.lambda1", ".ls2.gamma"),
    rename(".layer_scale1.lambda1", ".ls1.gamma"),
    rename(".attention.o_proj.", ".attn.proj."),
    rename("encoder.layer.", "blocks."),
    rename("layernorm.", "norm."),
    rename("embeddings.position_embeddings", "pos_embed"),
    rename("embeddings.register_tokens", "register_tokens"),
    rename("embeddings.mask_token", "mask_token"),
    rename("embeddings.cls_token", "cls_token"),
    rename("embeddings.patch_embeddings.projection.", "patch_embed.proj.")};
/// Neck and decoder of all dense predictions of TIPSv2, and what each puts in front of them.
constexpr std::array kTipsv2Neck{
    rename("decoder.project", "head.project"),
    rename("neck.convs", "head.convs"),
    rename("neck.fusion_stage.layers.#.residual_layer1.convolution2.",
           "head.fusion_blocks.#.residual_unit.conv2."),
    rename("neck.fusion_stage.layers.#.residual_layer1.convolution1.",
           "head.fusion_blocks.#.residual_unit.conv1."),
    rename("neck.fusion_stage.layers.#.residual_layer2.convolution2.",
           "head.fusion_blocks.#.main_unit.conv2."),
    rename("neck.fusion_stage.layers.#.residual_layer2.convolution1.",
           "head.fusion_blocks.#.main_unit.conv1."),
    rename("neck.fusion_stage.layers.#.projection.", "head.fusion_blocks.#.out_conv."),
    rename("neck.reassemble_stage.layers.#.resize.", "head.reassemble.resize_layers.#."),
    rename("neck.reassemble_stage.layers.#.projection.", "head.reassemble.out_projections.#."),
    rename("neck.reassemble_stage.readout_projects.#.layers.0",
           "head.reassemble.readout_projects.#"),
    rename("backbone", "vision_encoder")};
constexpr auto kTipsv2Dense =
    both(std::array{rename("segmentation_decoder.head.", "segmentation_head.segmentation_head."),
                    rename("normals_decoder.head.", "normals_head.normals_head."),
                    rename("depth_decoder.head.", "depth_head.depth_head.")},
         kTipsv2Neck);
constexpr auto kTipsv2Depth =
    both(both(std::array{rename("decoder.head.", "depth_head.depth_head.")}, kTipsv2Neck),
         std::array{rename("^head.", "depth_head.")});
constexpr auto kTipsv2Normals =
    both(both(std::array{rename("decoder.head.", "normals_head.normals_head.")}, kTipsv2Neck),
         std::array{rename("^head.", "normals_head.")});
constexpr auto kTipsv2Segmentation = both(
    both(std::array{rename("decoder.head.", "segmentation_head.segmentation_head.")}, kTipsv2Neck),
    std::array{rename("^head.", "segmentation_head.")});

constexpr std::array kFamilies{
    SaveFamily{"altclip", {}, kAltClipRenames},
    SaveFamily{"audio-spectrogram-transformer", {}, kViTRenames},
    SaveFamily{"beit", {}, kBeitRenames},
    SaveFamily{"beit backbone", {}, kBeitBackboneRenames, "beit"},
    SaveFamily{"BeitBackbone", {}, kBeitBackboneRenames, "beit"},
    SaveFamily{"BeitForSemanticSegmentation", {}, kBeitSegmentationRenames, "beit"},
    SaveFamily{"deit", {}, kViTRenames},
    SaveFamily{"dinov2", kDinov2Conversions, kDinov2Renames},
    SaveFamily{"dinov2_with_registers", kDinov2Conversions, kDinov2Renames},
    SaveFamily{"dinov3_convnext", {}, kDinov3ConvNextRenames},
    SaveFamily{"dinov3_vit", {}, kDinov3ViTRenames},
    SaveFamily{"ijepa", {}, kViTRenames},
    SaveFamily{"lfm3_vl_vision", {}, kLfm3VlVisionRenames},
    SaveFamily{"pixio", {}, kPixioRenames},
    SaveFamily{"radio", kRadioConversions, kRadioRenames},
    SaveFamily{"sapiens2", kSapiens2Conversions, kSapiens2Renames},
    SaveFamily{"Sapiens2ForImageMatting", {}, kSapiens2Matting, "sapiens2", "model."},
    SaveFamily{"Sapiens2ForNormalEstimation", {}, kSapiens2Normal, "sapiens2", "model."},
    SaveFamily{"Sapiens2ForPointmapEstimation", {}, kSapiens2Pointmap, "sapiens2", "model."},
    SaveFamily{"Sapiens2ForPoseEstimation", {}, kSapiens2Pose, "sapiens2", "model."},
    SaveFamily{"Sapiens2ForSemanticSegmentation", {}, kSapiens2Segmentation, "sapiens2", "model."},
    SaveFamily{"segformer", {}, kSegformerRenames},
    SaveFamily{"SegformerForSemanticSegmentation", {}, kSegformerHeadRenames, "segformer"},
    SaveFamily{"swin", {}, kSwinRenames},
    SaveFamily{"swin backbone", {}, kSwinBackboneRenames, "swin"},
    SaveFamily{"SwinBackbone", {}, kSwinBackboneRenames, "swin"},
    SaveFamily{"tipsv2", {}, kTipsv2Renames},
    SaveFamily{"tipsv2_text_model", kTipsv2TextConversions, kTipsv2TextRenames},
    SaveFamily{"tipsv2_vision_model", kTipsv2VisionConversions, kTipsv2VisionRenames},
    SaveFamily{"Tipsv2DptForDensePrediction", {}, kTipsv2Dense},
    SaveFamily{"Tipsv2DptForDepthEstimation", {}, kTipsv2Depth},
    SaveFamily{"Tipsv2DptForNormalEstimation", {}, kTipsv2Normals},
    SaveFamily{"Tipsv2DptForSemanticSegmentation", {}, kTipsv2Segmentation},
    SaveFamily{"videomae", {}, kVideoMaeRenames},
    SaveFamily{"vit", {}, kViTRenames},
    SaveFamily{"vit_mae", {}, kViTRenames},
    SaveFamily{"vit_msn", {}, kViTRenames},
    SaveFamily{"ViTMSNForImageClassification", {}, kViTMsnHeadRenames, "vit_msn"},
    SaveFamily{"vivit", {}, kViTRenames},
    SaveFamily{"yolos", {}, kYolosRenames},
};

}  // namespace

std::span<const SaveFamily> vision_families() { return kFamilies; }

}  // namespace shardkit::hf::internal
