"""How the architectures of transformers are built: a class, its configuration and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from torch import nn

from wild import torchvision_ops
from wild.architecture import Architecture
from wild.values import Draw, integers, padded

HIDDEN = 64
VOCABULARY = 100
BATCH, LENGTH = 2, 12

# The names that most configurations share.
SIZES = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
TEXT = {**SIZES, "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def hugging(
    model: str,
    config: Mapping[str, object],
    inputs: Mapping[str, Draw],
    *,
    configuration: str | None = None,
    outputs: tuple[str | int, ...] = (0,),
    **fixed: object,
) -> Architecture:
    """Describe `transformers.<model>` of the configuration class, by default the model's own."""
    build = partial(_build, model, configuration, dict(config))
    return Architecture("transformers", build, inputs, outputs, fixed)


def text_inputs(batch: int = BATCH, length: int = LENGTH, left: bool = False) -> dict[str, Draw]:
    """Return token ids, and a mask under which the last row has padding."""
    return {
        "input_ids": integers(batch, length, low=3, high=VOCABULARY),
        "attention_mask": padded(batch, length, left),
    }


def _build(model: str, configuration: str | None, config: Mapping[str, object]) -> nn.Module:
    torchvision_ops.declare()
    import transformers

    model_class = getattr(transformers, model)
    config_class = (
        getattr(transformers, configuration) if configuration else model_class.config_class
    )
    return model_class(config_class(**config))
