"""The table of whole models."""

from __future__ import annotations

from collections.abc import Callable

import onnx

MODELS: dict[str, Callable[..., onnx.ModelProto]] = {}
SMALL: dict[str, dict] = {}


def model(name: str, **options: object) -> onnx.ModelProto:
    """Build a whole model; its builder's docstring names the options."""
    return MODELS[name](**options)
