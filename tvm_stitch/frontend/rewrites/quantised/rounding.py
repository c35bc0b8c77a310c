"""Rounding to a quantised type: to the nearest, halves to even, held to what the type has."""

from __future__ import annotations

import numpy as np

from tvm_stitch.frontend.onnx_graph.builder import Builder


def requantised(build: Builder, value: str, step: str, zero: str, dtype: np.dtype, out: str) -> str:
    """Return saturate(round(value / step) + zero) in a type of integers."""
    limits = np.iinfo(dtype)
    rounded = build("Round", build("Div", value, step))
    moved = build("Add", rounded, build.cast(zero, np.float32))
    low, high = (build.constant(end, np.float32) for end in (limits.min, limits.max))
    return build.cast(build("Min", build("Max", moved, low), high), dtype, out=out)
