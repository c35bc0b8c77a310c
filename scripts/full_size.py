"""Architectures at the sizes that people run, of random weights: what bench_architectures times.

Deep towers of equal layers have a few of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn
from wild import torchvision_ops
from wild.architecture import Architecture
from wild.exporters import export
from wild.hugging import hugging
from wild.values import Draw, images, integers, normal

_TOKENS = 128
_PIXELS = {"pixel_values": images(1, 224)}
_LEGACY, _DYNAMO = "onnx-legacy", "onnx-dynamo"


@dataclass(frozen=True)
class FullSize:
    """An architecture and the exporter of PyTorch that writes it as an ONNX file."""

    architecture: Architecture
    exporter: str

    def export(self, path: Path) -> dict[str, np.ndarray]:
        """Write the model to `path`; return its inputs as arrays by name. Raises: NotExported."""
        example = self.architecture.example()
        export(example, self.exporter, path)
        return {name: tensor.numpy() for name, tensor in example.inputs.items()}


def _timm(name: str, size: int) -> FullSize:
    build = partial(_of_timm, name)
    return FullSize(Architecture("timm", build, {"x": images(1, size)}), _LEGACY)


def _of_timm(name: str) -> nn.Module:
    torchvision_ops.declare()
    import timm

    return timm.create_model(name, pretrained=False)


def _deeplab() -> nn.Module:
    torchvision_ops.declare()
    import torchvision

    options = {"weights": None, "weights_backbone": None}
    return torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(**options)


def _encoder_of_whisper(config: Mapping[str, object]) -> nn.Module:
    torchvision_ops.declare()
    import transformers

    return transformers.WhisperModel(transformers.WhisperConfig(**config)).encoder


def _hugging(
    name: str, config: Mapping[str, object], inputs: Mapping[str, Draw], **options: object
) -> FullSize:
    return FullSize(hugging(name, config, inputs, **options), _DYNAMO)


def _ids(vocabulary: int, length: int = _TOKENS) -> Draw:
    return integers(1, length, low=3, high=vocabulary)


_DEBERTA = {
    **{"hidden_size": 768, "num_hidden_layers": 3, "num_attention_heads": 12},
    **{"intermediate_size": 3072, "vocab_size": 30000, "relative_attention": True},
    **{"pos_att_type": ["p2c", "c2p"], "position_buckets": 256, "norm_rel_ebd": "layer_norm"},
    **{"share_att_key": True, "max_relative_positions": -1},
}
_LLAMA = {
    **{"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2},
    **{"num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000},
}
_MAMBA = {"hidden_size": 512, "num_hidden_layers": 2, "vocab_size": 5000, "use_cache": False}
_WHISPER = {
    **{"d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536},
    **{"decoder_layers": 1, "decoder_attention_heads": 6},
}

FULL_SIZE: dict[str, FullSize] = {
    **{
        name: _timm(name, size)
        for name, size in (
            ("convnext_tiny", 224),
            ("efficientnet_b0", 224),
            ("mobilenetv3_large_100", 224),
            ("mobilevitv2_100", 256),
            ("swin_tiny_patch4_window7_224", 224),
            ("regnety_008", 224),
            ("resnext50_32x4d", 224),
            ("densenet121", 224),
            ("ghostnet_100", 224),
            ("inception_v3", 299),
            ("edgenext_small", 256),
            ("mixer_s16_224", 224),
            ("levit_256", 224),
            ("repvgg_a2", 224),
            ("poolformer_s12", 224),
            ("coatnet_0_rw_224", 224),
        )
    },
    "deeplab_v3": FullSize(
        Architecture("torchvision", _deeplab, {"x": images(1, 256)}, outputs=("out",)), _DYNAMO
    ),
    "segformer_b0": _hugging(
        "SegformerForSemanticSegmentation",
        {"num_labels": 150},
        {"pixel_values": images(1, 512)},
    ),
    "clip_vision": _hugging("CLIPVisionModel", {"num_hidden_layers": 4}, _PIXELS),
    "sam_vision": _hugging(
        "SamVisionModel",
        {"num_hidden_layers": 3, "image_size": 512},
        {"pixel_values": images(1, 512)},
    ),
    "wav2vec2": _hugging(
        "Wav2Vec2Model", {"num_hidden_layers": 3}, {"input_values": normal(1, 48000)}
    ),
    "whisper_encoder": FullSize(
        Architecture(
            "transformers",
            partial(_encoder_of_whisper, _WHISPER),
            {"input_features": normal(1, 80, 3000)},
        ),
        _DYNAMO,
    ),
    "deberta_v2": _hugging("DebertaV2Model", _DEBERTA, {"input_ids": _ids(30000)}),
    "llama": _hugging("LlamaForCausalLM", _LLAMA, {"input_ids": _ids(32000)}, use_cache=False),
    "t5": _hugging(
        "T5ForConditionalGeneration",
        {"num_layers": 3},
        {"input_ids": _ids(32000), "decoder_input_ids": _ids(32000, 32)},
        use_cache=False,
    ),
    "mamba": _hugging("MambaForCausalLM", _MAMBA, {"input_ids": _ids(5000, 64)}, use_cache=False),
}
