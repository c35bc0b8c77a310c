"""Shape arithmetic that both columns share: what ONNX means, in Python integers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..peer import CannotRun
from .graph import Node

Shape = Sequence[int]


def flattened(shape: Shape, axis: int) -> tuple[int, int]:
    """Return the two extents of Flatten at `axis`."""
    lead = math.prod(shape[:axis])
    return lead, math.prod(shape) // lead if lead else 0


def reshaped(shape: Shape, target: np.ndarray, allow_zero: bool) -> list[int]:
    """Return Reshape's target with its zeros, which copy an extent, filled in."""
    dims = target.tolist()
    return [shape[i] if d == 0 and not allow_zero else d for i, d in enumerate(dims)]


def squeezed(shape: Shape, axes: Sequence[int] | None) -> list[int]:
    """Return the shape without `axes`, or without every extent of 1."""
    dropped = range(len(shape)) if axes is None else {axis % len(shape) for axis in axes}
    return [d for i, d in enumerate(shape) if i not in dropped or (axes is None and d != 1)]


def unsqueezed(shape: Shape, axes: Sequence[int]) -> list[int]:
    """Return the shape with extents of 1 put in at `axes` of the result."""
    rank = len(shape) + len(axes)
    added, rest = {axis % rank for axis in axes}, iter(shape)
    return [1 if i in added else next(rest) for i in range(rank)]


def slices(
    shape: Shape,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> list[range]:
    """Return, for each axis, the indices that Slice keeps."""
    kept = [range(extent) for extent in shape]
    named = range(len(starts)) if axes is None else axes.tolist()
    for i, axis in enumerate(named):
        step = 1 if steps is None else int(steps[i])
        end = int(ends[i])
        # Past the start going down: Python reads a negative end from the back.
        stop = None if step < 0 and end < -shape[axis] else end
        kept[axis] = kept[axis][int(starts[i]) : stop : step]
    return kept


def split_sizes(node: Node, extent: int, sizes: np.ndarray | None) -> list[int]:
    """Return the extents of Split's parts."""
    given = node.get("split") if sizes is None else sizes.tolist()
    if given:
        return given
    part = -(-extent // len(node.outputs))
    count = len(node.outputs)
    return [part] * (count - 1) + [extent - part * (count - 1)]


def windows(
    node: Node, spatial: Shape, kernel: Shape
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Return strides, dilations and (low, high) padding of a convolution or pooling.

    Ceil mode shows as more padding at the high end.
    """
    rank = len(kernel)
    strides = node.get("strides") or [1] * rank
    dilations = node.get("dilations") or [1] * rank
    pads = node.get("pads") or [0] * 2 * rank
    pairs = list(zip(pads[:rank], pads[rank:], strict=True))
    auto = node.get("auto_pad", "NOTSET")
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if auto.startswith("SAME"):
        pairs = []
        for extent, stride, span in zip(spatial, strides, reach, strict=True):
            total = max((-(-extent // stride) - 1) * stride + span - extent, 0)
            low = total // 2 if auto == "SAME_UPPER" else total - total // 2
            pairs.append((low, total - low))
    if node.get("ceil_mode"):
        for i, (low, high) in enumerate(pairs):
            over = (spatial[i] + low + high - reach[i]) % strides[i]
            steps_in = -(-(spatial[i] + low + high - reach[i]) // strides[i]) * strides[i]
            # The last window must start inside the input or its low padding.
            if over and steps_in < spatial[i] + low:
                pairs[i] = (low, high + strides[i] - over)
    return strides, dilations, pairs


def last_axis_softmax(node: Node, rank: int) -> int:
    """Return the axis of a softmax.

    Raises: CannotRun for the older meaning, which flattens, on an inner axis.
    """
    axis = node.get("axis", -1 if node.opset >= 13 else 1)
    if node.opset < 13 and axis % rank != rank - 1:
        raise CannotRun(f"{node.op} of opset {node.opset} over an inner axis")
    return axis
