"""Operators that ONNX's reference evaluator computes wrong, as the standard has them."""

from __future__ import annotations

import math

import numpy as np
from onnx.reference.op_run import OpRun


class Erf(OpRun):
    """The evaluator's results are float32 on their way to float64, 0 below 1e-45 (onnx 1.23)."""

    op_domain = ""

    def _run(self, x):
        return (np.vectorize(math.erf, otypes=["d"])(x).astype(x.dtype),)


class LRN(OpRun):
    """The evaluator counts images where it means channels: what is beyond is no sum (onnx 1.23)."""

    op_domain = ""

    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        before, behind = (size - 1) // 2, size // 2
        squares = np.square(x.astype(np.float64))
        sums = [
            squares[:, max(0, channel - before) : channel + behind + 1].sum(axis=1)
            for channel in range(x.shape[1])
        ]
        scale = bias + alpha / size * np.stack(sums, axis=1)
        return ((x / scale**beta).astype(x.dtype),)


class HardSwish(OpRun):
    """The evaluator's slope is a sixth in float32, and -3 of float64 not quite 0 (onnx 1.23)."""

    op_domain = ""

    def _run(self, x):
        gate = np.clip(x.astype(np.float64) / 6 + 0.5, 0, 1)
        return ((x * gate).astype(x.dtype),)


class LpNormalization(OpRun):
    """The evaluator adds numbers up, not their absolute values (onnx 1.23)."""

    op_domain = ""

    def _run(self, x, axis=None, p=None):
        norm = np.linalg.norm(x.astype(np.float64), ord=p, axis=axis, keepdims=True)
        with np.errstate(all="ignore"):
            return (np.where(norm == 0, 0, x / norm).astype(x.dtype),)


class Slice(OpRun):
    """The evaluator is NumPy, to which a place before the first is none when it walks back.

    To the standard, as to its inference of shapes, it is the first: x[-9:-9:-1] is x[:1].
    """

    op_domain = ""

    def _run(self, x, starts, ends, axes=None, steps=None):
        axes = range(len(starts)) if axes is None else axes
        steps = [1] * len(starts) if steps is None else steps
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            size, back = x.shape[axis], int(step < 0)
            low, high = (int(place) + size * (place < 0) for place in (start, end))
            low, high = min(max(low, 0), size - back), min(max(high, -back), size - back)
            x = np.take(x, range(low, high, int(step)) if size else [], axis)
        return (x,)


MENDED = [Erf, HardSwish, LRN, LpNormalization, Slice]
