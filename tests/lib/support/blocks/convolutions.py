"""Blocks of convolutional networks over values (batch, channels, *space)."""

from __future__ import annotations

import math

from support.blocks import ops as op
from support.blocks.graph import BlockGraph
from support.blocks.norms import batch_norm, norm
from support.blocks.products import MULTIPLY_ADDS, linear
from support.blocks.windows_numpy import Window, convolve, convolve_transposed
from support.random_graphs.values import Value

CHANNELS = (1, 2, 3, 4, 6, 7, 8, 12, 16, 16, 24, 30, 32, 32, 33, 48, 64, 64, 96, 128)
TRIES = 12


def takes(x: Value) -> bool:
    """Return whether a convolution takes this value."""
    return 3 <= x.rank <= 5 and x.dtype != "bfloat16" and 0 not in x.shape


def convolution(g: BlockGraph, x: Value) -> Value | None:
    """A convolution of any kind the space has room for."""
    if not takes(x):
        return None
    channels, space = x.shape[1], x.shape[2:]
    for _ in range(TRIES):
        kind = g.rng.choice(("plain", "plain", "plain", "grouped", "depthwise"))
        groups, outputs = 1, g.rng.choice(CHANNELS)
        if kind == "depthwise":
            groups, outputs = channels, channels * g.rng.choice((1, 1, 1, 2))
        elif kind == "grouped":
            groups = g.rng.choice([n for n in (1, 2, 3, 4, 8) if channels % n == 0])
            outputs = groups * g.rng.choice((1, 2, 4, 8, 16))
        window = draw_window(g, space)
        y = convolved(g, x, outputs, window, groups)
        if y is not None:
            return y
    return None


def draw_window(g: BlockGraph, space: tuple[int, ...]) -> Window:
    """Draw kernel, strides, dilations and pads, often the same in each axis."""
    rng = g.rng
    sizes = (1, 1, 3, 3, 3, 5, 7) if len(space) < 3 else (1, 2, 3, 3)
    common = [rng.choice(sizes), rng.choice((1, 1, 1, 1, 2, 2, 3)), rng.choice((1, 1, 1, 1, 2, 3))]
    own = rng.random() < 0.2
    axes = []
    for _ in space:
        kernel, stride, dilation = common
        if own:
            kernel, stride, dilation = rng.choice(sizes), rng.choice((1, 2)), rng.choice((1, 2))
        span = (kernel - 1) * dilation + 1
        same = (span // 2, (span - 1) // 2) if span % 2 == 0 else (span // 2,) * 2
        causal, random = (span - 1, 0), (rng.randint(0, span - 1), rng.randint(0, span - 1))
        pads = rng.choice((same, same, same, (0, 0), causal, random))
        axes.append((kernel, stride, dilation, pads))
    return Window(*(tuple(column) for column in zip(*axes, strict=True)))


def convolved(
    g: BlockGraph, x: Value, outputs: int, window: Window, groups: int = 1
) -> Value | None:
    """Append a convolution, or return None if it does not fit or costs too much."""
    space = x.shape[2:]
    if any(s > e + sum(p) for s, e, p in zip(window.spans, space, window.pads, strict=True)):
        return None
    pixels = x.shape[0] * math.prod(window.out(space))
    terms = x.shape[1] // groups * math.prod(window.kernel)
    if pixels * outputs > g.limit or pixels * outputs * terms > MULTIPLY_ADDS:
        return None
    args = [x, op.weight(g, outputs, x.shape[1] // groups, *window.kernel, fan_in=terms)]
    if g.rng.random() < 0.6:
        args.append(op.weight(g, outputs))

    def function(a, w, b=None):
        y = convolve(a, w, window, groups)
        return y if b is None else y + b.reshape(-1, *(1,) * len(space))

    attrs = {**window.attributes(), "group": groups}
    return g.rounded("Conv", function, args, accumulates=True, **attrs)


def pointwise(g: BlockGraph, x: Value, outputs: int) -> Value | None:
    """A 1x1 convolution."""
    rank = x.rank - 2
    window = Window((1,) * rank, (1,) * rank, (1,) * rank, ((0, 0),) * rank)
    return convolved(g, x, outputs, window)


def same_size(g: BlockGraph, x: Value, outputs: int, groups: int = 1) -> Value | None:
    """A convolution that keeps the space."""
    rank, size = x.rank - 2, g.rng.choice((1, 3, 3, 5, 7))
    dilation = g.rng.choice((1, 1, 1, 2))
    half = size // 2 * dilation
    window = Window((size,) * rank, (1,) * rank, (dilation,) * rank, ((half, half),) * rank)
    return convolved(g, x, outputs, window, groups)


def transposed(g: BlockGraph, x: Value) -> Value | None:
    if not takes(x):
        return None
    channels, space = x.shape[1], x.shape[2:]
    for _ in range(TRIES):
        kernel, stride = g.rng.choice((1, 2, 3, 4)), g.rng.choice((1, 2, 2, 3))
        dilation = g.rng.choice((1, 1, 1, 2))
        rank, span = len(space), (kernel - 1) * dilation + 1
        pads = tuple((g.rng.randint(0, span // 2), g.rng.randint(0, span // 2)) for _ in space)
        extra = tuple(g.rng.choice((0, min(1, stride - 1))) for _ in space)
        groups = g.rng.choice([n for n in (1, 1, 1, 2, channels) if channels % n == 0])
        outputs = groups * g.rng.choice((1, 2, 3, 8, 16, 32))
        window = Window((kernel,) * rank, (stride,) * rank, (dilation,) * rank, pads)
        out = [
            (e - 1) * stride + span - sum(p) + more
            for e, p, more in zip(space, pads, extra, strict=True)
        ]
        work = x.ref.size * outputs // groups * kernel**rank
        if min(out) < 1 or x.shape[0] * outputs * math.prod(out) > g.limit or work > MULTIPLY_ADDS:
            continue
        return _transposed(g, x, outputs, window, groups, extra)
    return None


def _transposed(g, x: Value, outputs: int, window: Window, groups: int, extra) -> Value:
    terms = x.shape[1] // groups * math.prod(window.kernel)
    args = [x, op.weight(g, x.shape[1], outputs // groups, *window.kernel, fan_in=terms)]
    if g.rng.random() < 0.5:
        args.append(op.weight(g, outputs))

    def function(a, w, b=None):
        y = convolve_transposed(a, w, window, groups, extra)
        return y if b is None else y + b.reshape(-1, *(1,) * len(window.kernel))

    attrs = {**window.attributes(), "group": groups, "output_padding": list(extra)}
    return g.rounded("ConvTranspose", function, args, accumulates=True, **attrs)


def conv_norm_act(g: BlockGraph, x: Value) -> Value | None:
    y = convolution(g, x)
    if y is None:
        return None
    y = batch_norm(g, y) if g.rng.random() < 0.6 else norm(g, y)
    return op.activation(g, y)


def inverted_residual(g: BlockGraph, x: Value) -> Value | None:
    """Expand, depthwise, squeeze-excite perhaps, project, add (MobileNet, EfficientNet)."""
    if not takes(x):
        return None
    hidden = x.shape[1] * g.rng.choice((1, 2, 4))
    y = pointwise(g, x, hidden)
    y = y and same_size(g, op.activation(g, batch_norm(g, y)), hidden, hidden)
    if y is None:
        return None
    y = op.activation(g, batch_norm(g, y))
    if g.rng.random() < 0.6:
        y = squeeze_excite(g, y)
    y = y and pointwise(g, y, x.shape[1])
    return y and op.add(g, y, x)


def squeeze_excite(g: BlockGraph, x: Value) -> Value | None:
    """Channels scaled by what an MLP makes of their means."""
    if x.rank < 3 or x.dtype == "bfloat16":
        return None
    channels, space = x.shape[1], tuple(range(2, x.rank))
    hidden = max(1, channels // g.rng.choice((2, 4)))
    if g.rng.random() < 0.5:
        mean = g.rounded(
            "GlobalAveragePool",
            lambda a: a.mean(space, keepdims=True),
            [x],
            accumulates=True,
        )
    else:
        mean = op.reduced(g, "ReduceMean", x, space)
    if g.rng.random() < 0.5 and x.rank <= 5:
        y = pointwise(g, mean, hidden)
        y = y and pointwise(g, op.activation(g, y), channels)
    else:
        flat = op.reshape(g, mean, x.shape[0], channels)
        y = linear(g, op.activation(g, linear(g, flat, hidden)), channels)
        y = op.reshape(g, y, *mean.shape)
    return y and op.mul(g, x, g.rounded("Sigmoid", op.sigmoid, [y]))


def temporal(g: BlockGraph, x: Value) -> Value | None:
    """Dilated causal convolutions: padded on both sides, what is too much sliced off (TCN)."""
    if x.rank != 3 or not takes(x):
        return None
    y, length = x, x.shape[2]
    outputs = g.rng.choice((x.shape[1], x.shape[1], 8, 16, 32))
    dilation = g.rng.choice((1, 2, 4, 8))
    kernel = g.rng.choice((2, 3, 5))
    pad = (kernel - 1) * dilation
    for _ in range(g.rng.randint(1, 2)):
        y = convolved(g, y, outputs, Window((kernel,), (1,), (dilation,), ((pad, pad),)))
        if y is None:
            return None
        y = op.activation(g, op.cut(g, y, 2, 0, length))
    short = x if outputs == x.shape[1] else pointwise(g, x, outputs)
    return short and op.activation(g, op.add(g, y, short))
