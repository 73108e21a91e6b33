// Families of models that find or follow things in images.
#include <array>

#include "shardkit/hf/save_rules_internal.h"

namespace shardkit::hf::internal {
namespace {

constexpr std::array kDetrRenames{
    rename("layers.#.mlp.fc2", "layers.#.fc2"), rename("layers.#.mlp.fc1", "layers.#.fc1"),
    rename("o_proj", "out_proj"), rename("backbone", "backbone.conv_encoder")};
constexpr std::array kDetrSegmentationRenames{
    rename("mask_head.output_conv", "mask_head.out_lay"),
    rename("mask_head.fpn_stages.2.refine.norm", "mask_head.gn5"),
    rename("mask_head.fpn_stages.2.refine.conv", "mask_head.lay5"),
    rename("mask_head.fpn_stages.2.fpn_adapter", "mask_head.adapter3"),
    rename("mask_head.fpn_stages.1.refine.norm", "mask_head.gn4"),
    rename("mask_head.fpn_stages.1.refine.conv", "mask_head.lay4"),
    rename("mask_head.fpn_stages.1.fpn_adapter", "mask_head.adapter2"),
    rename("mask_head.fpn_stages.0.refine.norm", "mask_head.gn3"),
    rename("mask_head.fpn_stages.0.refine.conv", "mask_head.lay3"),
    rename("mask_head.fpn_stages.0.fpn_adapter", "mask_head.adapter1"),
    rename("mask_head.conv2.norm", "mask_head.gn2"),
    rename("mask_head.conv2.conv", "mask_head.lay2"),
    rename("mask_head.conv1.norm", "mask_head.gn1"),
    rename("mask_head.conv1.conv", "mask_head.lay1"),
    rename("bbox_attention.k_proj", "bbox_attention.k_linear"),
    rename("bbox_attention.q_proj", "bbox_attention.q_linear")};
constexpr std::array kConditionalDetrRenames{
    rename("decoder.layers.#.encoder_attn.q_pos_sine_proj", "decoder.layers.#.ca_qpos_sine_proj"),
    rename("decoder.layers.#.encoder_attn.v_proj", "decoder.layers.#.ca_v_proj"),
    rename("decoder.layers.#.encoder_attn.k_pos_proj", "decoder.layers.#.ca_kpos_proj"),
    rename("decoder.layers.#.encoder_attn.k_content_proj", "decoder.layers.#.ca_kcontent_proj"),
    rename("decoder.layers.#.encoder_attn.q_pos_proj", "decoder.layers.#.ca_qpos_proj"),
    rename("decoder.layers.#.encoder_attn.q_content_proj", "decoder.layers.#.ca_qcontent_proj"),
    rename("decoder.layers.#.self_attn.v_proj", "decoder.layers.#.sa_v_proj"),
    rename("decoder.layers.#.self_attn.k_pos_proj", "decoder.layers.#.sa_kpos_proj"),
    rename("decoder.layers.#.self_attn.k_content_proj", "decoder.layers.#.sa_kcontent_proj"),
    rename("decoder.layers.#.self_attn.q_pos_proj", "decoder.layers.#.sa_qpos_proj"),
    rename("decoder.layers.#.self_attn.q_content_proj", "decoder.layers.#.sa_qcontent_proj"),
    rename("layers.#.mlp.fc2", "layers.#.fc2"),
    rename("layers.#.mlp.fc1", "layers.#.fc1"),
    rename("encoder_attn.o_proj", "encoder_attn.out_proj"),
    rename("self_attn.o_proj", "self_attn.out_proj"),
    rename("backbone", "backbone.conv_encoder")};
constexpr std::array kDeformableDetrRenames{
    rename("layers.#.mlp.fc2", "layers.#.fc2"), rename("layers.#.mlp.fc1", "layers.#.fc1"),
    rename("self_attn.o_proj", "self_attn.out_proj"), rename("backbone", "backbone.conv_encoder")};
constexpr std::array kLwDetrRenames{rename("attention.o_proj", "attention.output"),
                                    rename("attention.v_proj", "attention.attention.value"),
                                    rename("attention.k_proj", "attention.attention.key"),
                                    rename("attention.q_proj", "attention.attention.query")};
constexpr std::array kRtDetrRenames{rename("encoder.aifi.#.layers", "encoder.encoder.#.layers"),
                                    rename("layers.#.mlp.fc2", "layers.#.fc2"),
                                    rename("layers.#.mlp.fc1", "layers.#.fc1"),
                                    rename("o_proj", "out_proj")};
constexpr std::array kDFineRenames{rename("encoder.aifi.#.layers", "encoder.encoder.#.layers"),
                                   rename("layers.#.mlp.layers.1", "layers.#.fc2"),
                                   rename("layers.#.mlp.layers.0", "layers.#.fc1"),
                                   rename("o_proj", "out_proj")};
constexpr std::array kRfDetrConversions{
    join({"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"},
         "self_attn.in_proj_weight"),
    join({"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"},
         "self_attn.in_proj_bias")};
constexpr std::array kRfDetrRenames{
    rename("self_attn.o_proj", "self_attn.out_proj"),
    rename("attention.o_proj", "attention.output.dense"),
    rename("attention.v_proj", "attention.attention.value"),
    rename("attention.k_proj", "attention.attention.key"),
    rename("attention.q_proj", "attention.attention.query"),
    rename("reference_point_embed.weight", "refpoint_embed.weight"),
    rename("enc_out_bbox_embed", "transformer.enc_out_bbox_embed"),
    rename("enc_out_class_embed", "transformer.enc_out_class_embed"),
    rename("^enc_output", "transformer.enc_output"),
    rename("^enc_output_norm", "transformer.enc_output_norm"),
    rename("decoder.layernorm", "decoder.norm"),
    rename("decoder.layers.#.layer_norm", "decoder.layers.#.norm3"),
    rename("decoder.layers.#.mlp.fc2", "decoder.layers.#.linear2"),
    rename("decoder.layers.#.mlp.fc1", "decoder.layers.#.linear1"),
    rename("decoder.layers.#.cross_attn_layer_norm", "decoder.layers.#.norm2"),
    rename("decoder.layers.#.self_attn_layer_norm", "decoder.layers.#.norm1"),
    rename("decoder", "transformer.decoder"),
    rename("projector.projector_layer.bottlenecks.#.conv2.norm", "projector.stages.0.0.m.#.cv2.bn"),
    rename("projector.projector_layer.bottlenecks.#.conv2.conv",
           "projector.stages.0.0.m.#.cv2.conv"),
    rename("projector.projector_layer.bottlenecks.#.conv1.norm", "projector.stages.0.0.m.#.cv1.bn"),
    rename("projector.projector_layer.bottlenecks.#.conv1.conv",
           "projector.stages.0.0.m.#.cv1.conv"),
    rename("projector.layer_norm", "projector.stages.0.1"),
    rename("projector.projector_layer.conv2.norm", "projector.stages.0.0.cv2.bn"),
    rename("projector.projector_layer.conv2.conv", "projector.stages.0.0.cv2.conv"),
    rename("projector.projector_layer.conv1.norm", "projector.stages.0.0.cv1.bn"),
    rename("projector.projector_layer.conv1.conv", "projector.stages.0.0.cv1.conv"),
    rename("backbone.projector", "backbone.0.projector"),
    rename("backbone.backbone", "backbone.0.encoder.encoder")};
constexpr std::array kRfDetrDetectionRenames{rename("^model.", "")};
constexpr std::array kRfDetrSegmentationRenames{
    rename("segmentation_bias", "segmentation_head.bias"),
    rename("query_features_proj", "segmentation_head.query_features_proj"),
    rename("spatial_features_proj", "segmentation_head.spatial_features_proj"),
    rename("blocks.#.pointwise_conv", "segmentation_head.blocks.#.pwconv1"),
    rename("blocks.#.depthwise_conv", "segmentation_head.blocks.#.dwconv"),
    rename("blocks.#.layernorm", "segmentation_head.blocks.#.norm"),
    rename("query_features_block.norm", "segmentation_head.query_features_block.norm_in"),
    rename("query_features_block.mlp.fc2", "segmentation_head.query_features_block.layers.2"),
    rename("query_features_block.mlp.fc1", "segmentation_head.query_features_block.layers.0"),
    rename("^model.", "")};
constexpr std::array kMaskFormerRenames{rename("layers.#.mlp.fc2", "layers.#.fc2"),
                                        rename("layers.#.mlp.fc1", "layers.#.fc1")};
constexpr std::array kSam3TrackerRenames{
    rename("^", "tracker_model."), rename("vision_encoder.neck.", "tracker_neck."),
    rename("vision_encoder.backbone.", "detector_model.vision_encoder.backbone.")};
constexpr auto kPpDocLayoutV4Renames =
    both(kRtDetrRenames,
         std::array{
             rename("decoder.relative_order_head.s2r_fusion.closure_weight", "s2r_fusion.a"),
             rename("decoder.relative_order_head.global_pointer.", "decoder_global_pointer."),
             rename("decoder.relative_order_head.proj.", "decoder_order_head."),
             rename("decoder.successor_order_head.global_pointer.", "decoder_roor_global_pointer."),
             rename("decoder.successor_order_head.proj.", "decoder_roor_order_head.")});

constexpr std::array kFamilies{
    SaveFamily{"conditional_detr", {}, kConditionalDetrRenames},
    SaveFamily{"ConditionalDetrForSegmentation", {}, kDetrSegmentationRenames, "conditional_detr"},
    SaveFamily{"d_fine", {}, kDFineRenames},
    SaveFamily{"deformable_detr", {}, kDeformableDetrRenames},
    SaveFamily{"detr", {}, kDetrRenames},
    SaveFamily{"DetrForSegmentation", {}, kDetrSegmentationRenames, "detr"},
    SaveFamily{"lw_detr", {}, kLwDetrRenames},
    SaveFamily{"maskformer", {}, kMaskFormerRenames},
    SaveFamily{"pp_doclayout_v2", {}, kRtDetrRenames},
    SaveFamily{"pp_doclayout_v3", {}, kRtDetrRenames},
    SaveFamily{"pp_doclayout_v4", {}, kPpDocLayoutV4Renames},
    SaveFamily{"rf_detr", kRfDetrConversions, kRfDetrRenames},
    SaveFamily{"RfDetrForInstanceSegmentation",
               {},
               kRfDetrSegmentationRenames,
               "RfDetrForObjectDetection",
               "model."},
    SaveFamily{"RfDetrForObjectDetection", {}, kRfDetrDetectionRenames, "rf_detr", "model."},
    SaveFamily{"rt_detr", {}, kRtDetrRenames},
    SaveFamily{"rt_detr_v2", {}, kRtDetrRenames},
    SaveFamily{"sam3_tracker", {}, kSam3TrackerRenames},
    SaveFamily{"sam3_tracker_video", {}, kSam3TrackerRenames},
};

}  // namespace

std::span<const SaveFamily> detection_families() { return kFamilies; }

}  // namespace shardkit::hf::internal
