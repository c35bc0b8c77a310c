"""Operators that ONNX's reference evaluator computes wrong, as the standard has them."""

from __future__ import annotations

import numpy as np
from onnx.reference.op_run import OpRun


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


MENDED = [LRN]
