"""Ways between images, tokens and vectors, and windows and patches around inner blocks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from support.blocks import masks
from support.blocks import ops as op
from support.blocks.attention import attention
from support.blocks.convolutions import convolved
from support.blocks.graph import BlockGraph
from support.blocks.windows_numpy import Window
from support.random_graphs.values import Value

Block = Callable[[BlockGraph, Value], Value | None]


def patches(g: BlockGraph, x: Value) -> Value | None:
    """An image as tokens: a strided convolution, flattened and turned."""
    if x.rank != 4 or x.dtype == "bfloat16":
        return None
    size = g.rng.choice((1, 2, 4, 8))
    window = Window((size, size), (size, size), (1, 1), ((0, 0), (0, 0)))
    y = convolved(g, x, g.rng.choice((8, 16, 32, 48, 64, 96)), window)
    return y and to_tokens(g, y)


def to_tokens(g: BlockGraph, x: Value) -> Value | None:
    """(batch, channels, *space) as (batch, pixels, channels)."""
    if x.rank < 4:
        return op.transpose(g, x, 0, 2, 1) if x.rank == 3 else None
    if g.rng.random() < 0.5:
        flat = op.reshape(g, x, x.shape[0], x.shape[1], math.prod(x.shape[2:]))
        return op.transpose(g, flat, 0, 2, 1)
    y = op.transpose(g, x, 0, *range(2, x.rank), 1)
    return op.reshape(g, y, x.shape[0], math.prod(x.shape[2:]), x.shape[1])


def to_image(g: BlockGraph, x: Value) -> Value | None:
    """Tokens as an image, the first left out if only the others fill one."""
    if x.rank != 3:
        return None
    for skip in (0, 1):
        tokens = x.shape[1] - skip
        rows = [n for n in range(2, math.isqrt(max(tokens, 0)) + 1) if tokens % n == 0]
        if rows:
            height = rows[-1]
            y = op.cut(g, x, 1, 1, x.shape[1]) if skip else x
            y = op.transpose(g, y, 0, 2, 1)
            return op.reshape(g, y, *y.shape[:2], height, tokens // height)
    return None


def with_class_token(g: BlockGraph, x: Value) -> Value | None:
    """A learned token before the others, and learned positions."""
    if x.rank != 3 or x.ref.size + x.shape[0] * x.shape[2] > g.limit:
        return None
    token = g.constant(g.noise.standard_normal((1, 1, x.shape[2])), x.dtype)
    if x.shape[0] > 1 or g.rng.random() < 0.5:
        token = op.expand(g, token, x.shape[0], 1, x.shape[2])
    y = op.concat(g, [token, x], 1)
    return positions(g, y) if g.rng.random() < 0.7 else y


def positions(g: BlockGraph, x: Value) -> Value | None:
    if x.rank != 3:
        return None
    return op.add(g, x, op.weight(g, 1, *x.shape[1:]))


def to_vector(g: BlockGraph, x: Value) -> Value | None:
    """One vector for all: the first token, the mean or maximum of all or of all but the first."""
    if x.rank < 3 or 0 in x.shape:
        return None
    if x.rank > 3:
        y = op.reduced(g, g.rng.choice(("ReduceMean", "ReduceMax")), x, range(2, x.rank), False)
        return y
    how = g.rng.choice(("first", "first", "last", "mean", "mean", "rest", "rest", "max"))
    if how == "first":
        return op.pick(g, x, 1, 0)
    if how == "last":
        return op.pick(g, x, 1, x.shape[1] - 1)
    if how == "rest" and x.shape[1] > 1:
        x = op.cut(g, x, 1, 1, x.shape[1])
    return op.reduced(g, "ReduceMax" if how == "max" else "ReduceMean", x, [1], keepdims=False)


def from_vector(g: BlockGraph, x: Value) -> Value | None:
    """A vector again beside tokens or as one."""
    if x.rank != 2:
        return None
    other = g.pick(lambda v: v.rank == 3 and v.dtype == x.dtype and v.shape[::2] == x.shape)
    y = op.unsqueeze(g, x, 1)
    if other is None:
        return y
    if g.rng.random() < 0.5:
        return op.add(g, other, y)
    return op.concat(g, [y, other], 1) if other.ref.size + y.ref.size <= g.limit else y


def merged_patches(g: BlockGraph, x: Value) -> Value | None:
    """Two by two pixels (batch, height, width, channels) as one, by strided slices (Swin)."""
    if x.rank != 4 or x.shape[1] % 2 or x.shape[2] % 2:
        return None
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        y = op.cut(g, x, 1, row, x.shape[1], 2)
        parts.append(op.cut(g, y, 2, column, x.shape[2], 2))
    return op.concat(g, parts, -1)


def windows(g: BlockGraph, x: Value) -> Value | None:
    """Attention within shifted windows of tokens or of an image with channels last."""
    image = _channels_last(g, x)
    if image is None:
        return None
    _, height, width, _ = image.shape
    sizes = [n for n in (2, 3, 4, 7, 8) if height % n == 0 and width % n == 0]
    if not sizes:
        return None
    size = g.rng.choice(sizes)
    shift = g.rng.choice((0, size // 2)) if size < min(height, width) else 0
    y = _rolled(g, image, shift, shift)
    y = partition(g, y, size)
    heads = g.rng.choice((1, 2, 4))
    bias = masks.position_bias(g, heads, size) if g.rng.random() < 0.7 else None
    mask = _shift_mask(g, height, width, size, shift) if shift else None
    y = attention(g, y, mask, bias)
    if y is None or y.shape[2] != image.shape[3]:
        return None
    y = _rolled(g, joined(g, y, image.shape, size), -shift, -shift)
    return op.reshape(g, y, *x.shape) if x.rank == 3 else y


def _channels_last(g: BlockGraph, x: Value) -> Value | None:
    if x.rank == 4:
        return x
    if x.rank != 3:
        return None
    rows = [n for n in range(2, math.isqrt(x.shape[1]) + 1) if x.shape[1] % n == 0]
    if not rows:
        return None
    return op.reshape(g, x, x.shape[0], rows[-1], x.shape[1] // rows[-1], x.shape[2])


def partition(g: BlockGraph, x: Value, size: int) -> Value:
    """(batch, height, width, channels) as (batch * windows, size * size, channels)."""
    batch, height, width, channels = x.shape
    y = op.reshape(g, x, batch, height // size, size, width // size, size, channels)
    y = op.transpose(g, y, 0, 1, 3, 2, 4, 5)
    return op.reshape(g, y, batch * height * width // size**2, size**2, channels)


def joined(g: BlockGraph, x: Value, shape: tuple[int, ...], size: int) -> Value:
    """Undo `partition`."""
    batch, height, width, channels = shape
    y = op.reshape(g, x, batch, height // size, width // size, size, size, channels)
    y = op.transpose(g, y, 0, 1, 3, 2, 4, 5)
    return op.reshape(g, y, *shape)


def _rolled(g: BlockGraph, x: Value, *shifts: int) -> Value:
    """Roll the axes from 1 on backwards, as slices and concats."""
    for axis, shift in enumerate(shifts, 1):
        if shift:
            at = shift % x.shape[axis]
            parts = [op.cut(g, x, axis, at, x.shape[axis]), op.cut(g, x, axis, 0, at)]
            x = op.concat(g, parts, axis)
    return x


def _shift_mask(g: BlockGraph, height: int, width: int, size: int, shift: int) -> Value:
    """Return (windows, tokens, tokens): -100 between pixels that the roll brought together."""
    parts = [
        np.searchsorted([extent - size, extent - shift], np.arange(extent), "right")
        for extent in (height, width)
    ]
    region = parts[0][:, None] * 3 + parts[1]
    cells = region.reshape(height // size, size, width // size, size)
    flat = cells.transpose(0, 2, 1, 3).reshape(-1, size * size)
    apart = flat[:, :, None] != flat[:, None, :]
    low = -np.inf if g.rng.random() < 0.2 else -100.0
    return g.constant(np.where(apart, low, 0.0), g.dtype)


def unfolded(g: BlockGraph, x: Value, inner: Block) -> Value | None:
    """An inner block over the pixels at one place of all patches, folded back (MobileViT)."""
    if x.rank != 4 or x.shape[2] % 2 or x.shape[3] % 2:
        return None
    batch, channels, height, width = x.shape
    rows, columns = height // 2, width // 2
    y = op.reshape(g, x, batch * channels * rows, 2, columns, 2)
    y = op.transpose(g, y, 0, 2, 1, 3)
    y = op.reshape(g, y, batch, channels, rows * columns, 4)
    y = op.transpose(g, y, 0, 3, 2, 1)
    y = op.reshape(g, y, batch * 4, rows * columns, channels)
    y = inner(g, y)
    if y is None or y.shape != (batch * 4, rows * columns, channels):
        return None
    y = op.reshape(g, y, batch, 4, rows * columns, channels)
    y = op.transpose(g, y, 0, 3, 2, 1)
    y = op.reshape(g, y, batch * channels * rows, columns, 2, 2)
    y = op.transpose(g, y, 0, 2, 1, 3)
    return op.reshape(g, y, batch, channels, height, width)
