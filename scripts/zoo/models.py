"""The table of whole models, and the options that make each one small."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import onnx

from zoo.bert import bert
from zoo.convnets import mobilenetv2, resnet50
from zoo.crnn import crnn_like
from zoo.dien import dien_like
from zoo.encoder_decoder import encoder_decoder
from zoo.gpt2 import gpt2
from zoo.onednn import MHA_SIZES, MLP_SIZES, mha, mlp
from zoo.vit import vit

MODELS: dict[str, Callable[..., onnx.ModelProto]] = {
    "bert": bert,
    "gpt2": gpt2,
    "vit": vit,
    "resnet50": resnet50,
    "mobilenetv2": mobilenetv2,
    "encoder_decoder": encoder_decoder,
    "dien_like": dien_like,
    "crnn_like": crnn_like,
    **{name: partial(mlp, name) for name in MLP_SIZES},
    **{name: partial(mha, name) for name in MHA_SIZES},
}

SMALL: dict[str, dict] = {
    "bert": {"layers": 2, "seq": 16, "hidden": 64, "heads": 4, "vocabulary": 100},
    "gpt2": {"layers": 2, "seq": 16, "hidden": 64, "heads": 4, "vocabulary": 100},
    "vit": {"layers": 2, "variant": "small", "image": 64, "classes": 10},
    "resnet50": {"layers": 2, "image": 64, "classes": 10},
    "mobilenetv2": {"layers": 3, "image": 64, "classes": 10},
    "encoder_decoder": {
        "layers": 2,
        "source": 16,
        "target": 8,
        "hidden": 64,
        "heads": 4,
        "vocabulary": 100,
    },
    "dien_like": {"layers": 2, "batch": 8, "users": 50, "items": 50, "categories": 10},
    "crnn_like": {"layers": 2, "width": 40, "hidden": 32},
    "mlp_1": {"layers": 2, "batch": 8},
    "mlp_2": {"layers": 2, "batch": 8},
    **{name: {"batch": 1, "seq": 32} for name in MHA_SIZES},
}


def model(name: str, **options: object) -> onnx.ModelProto:
    """Build a whole model; its builder's docstring names the options, `SMALL` a quick set.

    Raises: KeyError for an unknown name, TypeError or ValueError for an option it does not take.
    """
    return MODELS[name](**options)
