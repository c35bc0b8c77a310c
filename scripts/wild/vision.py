"""Images through transformers: patches, windows, relative biases, convolutions."""

from __future__ import annotations

from wild.architecture import Architecture
from wild.hugging import HIDDEN, SIZES, TEXT, VOCABULARY, hugging, text_inputs
from wild.values import boxes, images, normal, padded

IMAGE = 64
PIXELS = {"pixel_values": images(1, IMAGE)}
PATCHED = {**SIZES, "image_size": IMAGE, "patch_size": 16}
STAGES = {"depths": [1, 1], "hidden_sizes": [32, 64], "num_stages": 2, "num_labels": 10}
SWIN = {
    "image_size": IMAGE,
    "embed_dim": 32,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
    "num_labels": 10,
}
PYRAMID = {
    "depths": [1, 1, 1, 1],
    "hidden_sizes": [16, 32, 32, 64],
    "num_attention_heads": [1, 2, 2, 4],
    "num_labels": 10,
}
TOWER = {**SIZES, "projection_dim": 32}
CLIP = {
    "text_config": {**TEXT, **TOWER, "max_position_embeddings": 32},
    "vision_config": {**TOWER, "image_size": IMAGE, "patch_size": 16},
    "projection_dim": 32,
}

VISION: dict[str, Architecture] = {
    "vit": hugging("ViTForImageClassification", {**PATCHED, "num_labels": 10}, PIXELS),
    "deit": hugging("DeiTForImageClassification", {**PATCHED, "num_labels": 10}, PIXELS),
    "dinov2": hugging("Dinov2Model", PATCHED, PIXELS, outputs=(0, 1)),
    "dinov2_swiglu": hugging("Dinov2Model", {**PATCHED, "use_swiglu_ffn": True}, PIXELS),
    "dinov3": hugging("DINOv3ViTModel", {**PATCHED, "num_register_tokens": 2}, PIXELS),
    "swin": hugging("SwinForImageClassification", SWIN, PIXELS),
    "swin_padded": hugging("SwinModel", {**SWIN, "window_size": 5}, PIXELS),
    "swinv2_window_8": hugging("Swinv2Model", {**SWIN, "window_size": 8}, PIXELS),
    "swinv2": hugging("Swinv2ForImageClassification", SWIN, PIXELS),
    "beit": hugging("BeitForImageClassification", {**PATCHED, "num_labels": 10}, PIXELS),
    "beit_relative": hugging(
        "BeitForImageClassification",
        {**PATCHED, "num_labels": 10, "use_relative_position_bias": True},
        PIXELS,
    ),
    "beit_shared": hugging(
        "BeitModel",
        {**PATCHED, "use_shared_relative_position_bias": True, "use_mean_pooling": False},
        PIXELS,
    ),
    "data2vec_vision": hugging(
        "Data2VecVisionModel", {**PATCHED, "use_relative_position_bias": True}, PIXELS
    ),
    "mobilevit": hugging(
        "MobileViTForImageClassification",
        {
            "image_size": IMAGE,
            "hidden_sizes": [32, 48, 64],
            "neck_hidden_sizes": [8, 16, 16, 24, 32, 48, 64],
            "num_labels": 10,
        },
        PIXELS,
    ),
    "mobilevitv2": hugging(
        "MobileViTV2ForImageClassification",
        {
            "image_size": IMAGE,
            "base_attn_unit_dims": [32, 48, 64],
            "n_attn_blocks": [1, 1, 1],
            "width_multiplier": 0.5,
            "num_labels": 10,
        },
        PIXELS,
    ),
    "convnext": hugging("ConvNextForImageClassification", STAGES, PIXELS),
    "convnextv2": hugging("ConvNextV2ForImageClassification", STAGES, PIXELS),
    "segformer": hugging(
        "SegformerForSemanticSegmentation", {**PYRAMID, "decoder_hidden_size": 32}, PIXELS
    ),
    "glpn": hugging("GLPNForDepthEstimation", {**PYRAMID, "decoder_hidden_size": 32}, PIXELS),
    "poolformer": hugging(
        "PoolFormerForImageClassification",
        {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 32, 64], "num_labels": 10},
        PIXELS,
    ),
    "pvt": hugging("PvtForImageClassification", {**PYRAMID, "image_size": IMAGE}, PIXELS),
    "pvt_v2": hugging(
        "PvtV2ForImageClassification",
        {**PYRAMID, "image_size": IMAGE, "linear_attention": True},
        PIXELS,
    ),
    "levit": hugging(
        "LevitForImageClassification",
        {
            "image_size": IMAGE,
            "hidden_sizes": [32, 48, 64],
            "num_attention_heads": [2, 3, 4],
            "depths": [1, 1, 1],
            "num_labels": 10,
        },
        PIXELS,
    ),
    "cvt": hugging(
        "CvtForImageClassification",
        {"embed_dim": [16, 32, 64], "depth": [1, 2, 4], "num_heads": [1, 2, 4], "num_labels": 10},
        PIXELS,
    ),
    "focalnet": hugging(
        "FocalNetForImageClassification",
        {"image_size": IMAGE, "embed_dim": 16, "depths": [1, 1, 1, 1], "num_labels": 10},
        PIXELS,
    ),
    "dpt": hugging(
        "DPTForDepthEstimation",
        {
            **PATCHED,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [16, 16, 32, 32],
            "fusion_hidden_size": 16,
            "use_auxiliary_head": False,
        },
        PIXELS,
    ),
    "mobilenet_v1": hugging(
        "MobileNetV1ForImageClassification", {"depth_multiplier": 0.25, "num_labels": 10}, PIXELS
    ),
    "mobilenet_v2": hugging(
        "MobileNetV2ForSemanticSegmentation",
        {"depth_multiplier": 0.35, "num_labels": 10, "output_stride": 8},
        PIXELS,
    ),
    "bit": hugging(
        "BitForImageClassification",
        {
            "embedding_size": 32,
            "hidden_sizes": [32, 64],
            "depths": [1, 1],
            "num_groups": 4,
            "num_labels": 10,
        },
        PIXELS,
    ),
    "swiftformer": hugging(
        "SwiftFormerForImageClassification",
        {"depths": [1, 1, 1, 1], "embed_dims": [16, 24, 32, 48], "num_labels": 10},
        PIXELS,
    ),
    "hiera": hugging(
        "HieraForImageClassification",
        {
            "embed_dim": 16,
            "image_size": [IMAGE, IMAGE],
            "depths": [1, 1, 1, 1],
            "num_heads": [1, 2, 4, 8],
            "masked_unit_size": [8, 8],
            "num_labels": 10,
        },
        PIXELS,
    ),
    "yolos": hugging(
        "YolosForObjectDetection",
        {**PATCHED, "image_size": [IMAGE, IMAGE], "num_detection_tokens": 5, "num_labels": 10},
        PIXELS,
        outputs=("logits", "pred_boxes"),
    ),
    "sam_vision": hugging(
        "SamVisionModel",
        {
            **PATCHED,
            "output_channels": 32,
            "mlp_dim": 128,
            "window_size": 3,
            "global_attn_indexes": [1],
        },
        PIXELS,
    ),
    "vitdet": hugging(
        "VitDetModel",
        {
            **PATCHED,
            "pretrain_image_size": IMAGE,
            "window_block_indices": [0],
            "residual_block_indices": [1],
            "window_size": 3,
            "use_relative_position_embeddings": True,
        },
        PIXELS,
    ),
    "textnet": hugging(
        "TextNetForImageClassification",
        {
            "image_size": [IMAGE, IMAGE],
            "stem_out_channels": 16,
            "hidden_sizes": [16, 16, 32, 32, 64],
            "num_labels": 10,
        },
        PIXELS,
    ),
    "clip": hugging(
        "CLIPModel",
        CLIP,
        {**text_inputs(), **PIXELS},
        outputs=("logits_per_image", "text_embeds", "image_embeds"),
    ),
    "siglip_vision": hugging("SiglipVisionModel", PATCHED, PIXELS, outputs=(0, 1)),
    "blip_vision": hugging("BlipVisionModel", {**PATCHED, "projection_dim": 32}, PIXELS),
    "groupvit": hugging(
        "GroupViTVisionModel",
        {
            "hidden_size": HIDDEN,
            "intermediate_size": 128,
            "num_hidden_layers": 3,
            "depths": [1, 1, 1],
            "num_group_tokens": [8, 4, 0],
            "num_output_groups": [8, 4, 4],
            "num_attention_heads": 4,
            "image_size": IMAGE,
        },
        PIXELS,
    ),
    "perceiver": hugging(
        "PerceiverModel",
        {
            "num_latents": 8,
            "d_latents": 32,
            "d_model": HIDDEN,
            "num_self_attends_per_block": 2,
            "num_self_attention_heads": 4,
            "num_cross_attention_heads": 4,
        },
        {"inputs": normal(2, 24, HIDDEN), "attention_mask": padded(2, 24)},
    ),
    "layoutlmv3": hugging(
        "LayoutLMv3Model",
        {
            **TEXT,
            "input_size": IMAGE,
            "coordinate_size": 10,
            "shape_size": 12,
            "max_2d_position_embeddings": 32,
            "rel_2d_pos_bins": 8,
            "rel_pos_bins": 8,
        },
        {**text_inputs(1), "bbox": boxes(1, 12), **PIXELS},
    ),
    "trocr_decoder": hugging(
        "TrOCRForCausalLM",
        {
            "vocab_size": VOCABULARY,
            "d_model": HIDDEN,
            "decoder_layers": 2,
            "decoder_attention_heads": 4,
            "decoder_ffn_dim": 128,
            "cross_attention_hidden_size": 48,
            "max_position_embeddings": 32,
        },
        {**text_inputs(), "encoder_hidden_states": normal(2, 9, 48)},
        use_cache=False,
    ),
}
