"""Pooling, resizing, and what else changes the size of an image."""

from __future__ import annotations

import math

import numpy as np

from support.blocks import ops as op
from support.blocks.convolutions import TRIES
from support.blocks.graph import BlockGraph
from support.blocks.windows_numpy import Window, pool_average, pool_max
from support.random_graphs.values import Value


def pool(g: BlockGraph, x: Value) -> Value | None:
    """Max or average pooling, ceil_mode and padding counted or not."""
    if not 3 <= x.rank <= 5 or x.dtype == "bfloat16":
        return None
    rng, space = g.rng, x.shape[2:]
    for _ in range(TRIES):
        kernel = tuple(rng.choice((1, 2, 2, 3, 3, 5)) for _ in space)
        if rng.random() < 0.7:
            kernel = kernel[:1] * len(space)
        strides = tuple(rng.choice((1, 2, 2, k)) for k in kernel)
        largest, ceil = rng.random() < 0.5, rng.random() < 0.3
        dilations = tuple(rng.choice((1, 1, 1, 2)) if largest else 1 for _ in space)
        pads = tuple((rng.randint(0, k // 2), rng.randint(0, k // 2)) for k in kernel)
        window = Window(kernel, strides, dilations, pads)
        if (
            _fits(window, space, ceil)
            and math.prod(window.out(space, ceil)) * math.prod(x.shape[:2]) <= g.limit
        ):
            return _pooled(g, x, window, largest, ceil)
    return None


def _fits(window: Window, space: tuple[int, ...], ceil: bool) -> bool:
    """Return whether each window has an element and begins and ends where all runtimes agree."""
    out = window.out(space, ceil)
    for extent, count, span, stride, dilation, (before, after) in zip(
        space, out, window.spans, window.strides, window.dilations, window.pads, strict=True
    ):
        starts = [number * stride - before for number in range(count)]
        if span > extent + before + after or starts[-1] >= extent or span <= max(before, after):
            return False
        if not all(_reads(start, span, dilation, extent) for start in starts):
            return False
    return True


def _reads(start: int, span: int, dilation: int, extent: int) -> bool:
    """Return whether a tap of the window at `start` lies in the image."""
    return any(0 <= at < extent for at in range(start, start + span, dilation))


def _pooled(g: BlockGraph, x: Value, window: Window, largest: bool, ceil: bool) -> Value:
    attrs = {**window.attributes(), "ceil_mode": int(ceil)}
    if largest:
        return g.select("MaxPool", lambda a: pool_max(a, window, ceil), [x], **attrs)
    counted = not ceil and g.rng.random() < 0.5
    del attrs["dilations"]
    return g.rounded(
        "AveragePool",
        lambda a: pool_average(a, window, ceil, counted),
        [x],
        accumulates=True,
        count_include_pad=int(counted),
        **attrs,
    )


def resize(g: BlockGraph, x: Value) -> Value | None:
    """Nearest neighbours, whole factors."""
    if x.rank != 4 or x.dtype not in ("float32", "float16"):
        return None
    by = g.rng.choice((2, 2, 3))
    if x.ref.size * by * by > g.limit:
        return None
    scales = g.constant([1, 1, by, by], "float32")
    operands = [x.name, "", scales.name]

    def function(a):
        return a.repeat(by, 2).repeat(by, 3)

    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    y = g.layout("Resize", function, [x], nearest_mode="floor", **attrs)
    g.nodes[-1].input[:] = operands
    return y


def pixels_to_channels(g: BlockGraph, x: Value) -> Value | None:
    """SpaceToDepth or slices as in Focus and patch merging, and the way back."""
    if x.rank != 4:
        return None
    batch, channels, height, width = x.shape
    if height % 2 == 0 and width % 2 == 0 and height * width > 0:
        if g.rng.random() < 0.5:
            return _space_to_depth(g, x)
        rows = [op.cut(g, x, 2, i, height, 2) for i in (0, 1)]
        return op.concat(g, [op.cut(g, row, 3, j, width, 2) for row in rows for j in (0, 1)], 1)
    if channels % 4 == 0 and x.dtype != "bfloat16":

        def function(a):
            parts = a.reshape(batch, 2, 2, channels // 4, height, width)
            return parts.transpose(0, 3, 4, 1, 5, 2).reshape(
                batch, channels // 4, 2 * height, 2 * width
            )

        return g.layout("DepthToSpace", function, [x], blocksize=2, mode="DCR")
    return None


def _space_to_depth(g: BlockGraph, x: Value) -> Value:
    batch, channels, height, width = x.shape
    y = op.reshape(g, x, batch, channels, height // 2, 2, width // 2, 2)
    y = op.transpose(g, y, 0, 3, 5, 1, 2, 4)
    return op.reshape(g, y, batch, 4 * channels, height // 2, width // 2)


def shuffle(g: BlockGraph, x: Value) -> Value | None:
    """Channels of groups interleaved (ShuffleNet)."""
    groups = [n for n in (2, 3, 4, 8) if x.rank >= 3 and x.shape[1] % n == 0]
    if not groups:
        return None
    n = g.rng.choice(groups)
    y = op.reshape(g, x, x.shape[0], n, x.shape[1] // n, *x.shape[2:])
    y = op.transpose(g, y, 0, 2, 1, *range(3, y.rank))
    return op.reshape(g, y, *x.shape)


def padded(g: BlockGraph, x: Value) -> Value | None:
    """Pads one or two axes, by numbers of one of the modes."""
    if not x.rank or x.dtype == "bfloat16":
        return None
    mode = g.rng.choice(("constant", "constant", "edge", "reflect"))
    widths = [(0, 0)] * x.rank
    for axis in g.rng.sample(range(x.rank), min(x.rank, g.rng.randint(1, 2))):
        most = min(3, x.shape[axis] - 1) if mode == "reflect" else 3
        widths[axis] = (g.rng.randint(0, most), g.rng.randint(0, most))
    if math.prod(e + sum(w) for e, w in zip(x.shape, widths, strict=True)) > g.limit:
        return None
    before, after = zip(*widths, strict=True)
    extra = [g.constant([*before, *after], "int64")]
    return g.layout("Pad", lambda a: np.pad(a, widths, mode), [x], extra, mode=mode)
