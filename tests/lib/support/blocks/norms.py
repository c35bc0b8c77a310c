"""Normalisations in the ways exporters write them."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from support.blocks import ops as op
from support.blocks.graph import BlockGraph
from support.random_graphs.values import Composite, Value

EPSILONS = (1e-5, 1e-5, 1e-6, 1e-3, 1e-12)


def norm(g: BlockGraph, x: Value) -> Value:
    """One of the normalisations below that takes values of x's rank."""
    fitting = [layer_norm, layer_norm, rms_norm, any_norm]
    if x.rank >= 3:
        fitting += [group_norm, instance_norm, batch_norm, layer_norm_of_channels]
    return g.rng.choice(fitting)(g, x)


def token_norm(g: BlockGraph, x: Value) -> Value:
    """The normalisation of a transformer."""
    return g.rng.choice((layer_norm, layer_norm, layer_norm, rms_norm))(g, x)


def layer_norm(g: BlockGraph, x: Value) -> Value:
    epsilon = g.rng.choice(EPSILONS[:4])
    if g.rng.random() < 0.5:
        return _affine_rows(g, standard(g, x, (-1,), epsilon))
    args = [x, op.weight(g, x.shape[-1])]
    if g.rng.random() < 0.8:
        args.append(op.weight(g, x.shape[-1]))

    def noisy(share):
        def function(a, scale, bias=0.0):
            return _standardised(a, -1, epsilon, share) * scale + bias

        return function

    function = Composite(noisy(0.0), noisy)
    attrs = {"axis": g.rng.choice((-1, x.rank - 1)), "epsilon": epsilon}
    return g.rounded("LayerNormalization", function, args, accumulates=True, **attrs)


def _standardised(a: np.ndarray, axes, epsilon: float, share: float) -> np.ndarray:
    """Return (a - mean) / sqrt(variance + epsilon), the mean off by a share of itself."""
    centred = a - a.mean(axes, keepdims=True) * (1 + share)
    variance = np.square(centred).mean(axes, keepdims=True)
    return centred / np.sqrt(variance + epsilon)


def rms_norm(g: BlockGraph, x: Value) -> Value:
    square = _square(g, x)
    mean = op.reduced(g, "ReduceMean", square, [-1])
    y = _by_root(g, x, mean, g.rng.choice(EPSILONS))
    return op.mul(g, y, op.weight(g, x.shape[-1])) if g.rng.random() < 0.8 else y


def any_norm(g: BlockGraph, x: Value) -> Value:
    """Over any axes: standardised, or of unit length."""
    axes = sorted(g.rng.sample(range(x.rank), g.rng.randint(1, min(2, x.rank))))
    if g.rng.random() < 0.5:
        return standard(g, x, axes, g.rng.choice(EPSILONS))
    return unit_length(g, x, axes)


def unit_length(g: BlockGraph, x: Value, axes: Sequence[int] = (-1,)) -> Value:
    """x / max(|x|, epsilon), as torch.nn.functional.normalize is exported."""
    if g.rng.random() < 0.5:
        length = op.reduced(g, "ReduceL2", x, axes)
    else:
        length = op.sqrt(g, op.reduced(g, "ReduceSum", _square(g, x), axes))
    low = op.number(g, 1e-6)
    # Without a maximum the standard has the largest number of the type, not infinity.
    largest = float(ml_dtypes.finfo(getattr(ml_dtypes, low.dtype, low.dtype)).max)
    length = g.select("Clip", lambda a: np.clip(a, low.ref, largest), [length], extra=[low])
    if g.rng.random() < 0.5 and x.rank:
        length = op.expand(g, length, *x.shape)
    return op.div(g, x, length)


def standard(g: BlockGraph, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(variance + epsilon), written out."""
    mean = op.reduced(g, "ReduceMean", x, axes)
    centred = op.sub(g, x, mean)
    if g.rng.random() < 0.15:  # variance as the difference of two means
        of_squares = op.reduced(g, "ReduceMean", _square(g, x), axes)
        variance = op.sub(g, of_squares, op.mul(g, mean, mean))
        variance = g.select("Relu", lambda a: np.maximum(a, 0.0), [variance])
    else:
        again = op.sub(g, x, mean) if g.rng.random() < 0.1 else centred
        variance = op.reduced(g, "ReduceMean", _square(g, again), axes)
    return _by_root(g, centred, variance, epsilon)


def group_norm(g: BlockGraph, x: Value) -> Value:
    """Over groups of channels, axis 1: reshaped to (batch, groups, rest) and standardised."""
    channels = x.shape[1]
    groups = g.rng.choice([n for n in (1, 2, 3, 4, 8, 32, channels) if channels % n == 0])
    if g.rng.random() < 0.5 and x.dtype != "bfloat16":
        y = op.reshape(g, x, x.shape[0], groups, -(-x.ref.size // (x.shape[0] * groups)))
        y = _instance(g, y, np.ones(groups), np.zeros(groups))
    else:
        parts = (x.shape[0], groups, channels // groups, *x.shape[2:])
        y = op.reshape(g, x, *parts)
        y = standard(g, y, range(2, y.rank), g.rng.choice(EPSILONS[:4]))
    return _affine_channels(g, op.reshape(g, y, *x.shape))


def instance_norm(g: BlockGraph, x: Value) -> Value:
    if g.rng.random() < 0.5 and x.dtype != "bfloat16":
        scale, bias = g.noise.standard_normal((2, x.shape[1]))
        return _instance(g, x, scale, bias)
    y = standard(g, x, range(2, x.rank), g.rng.choice(EPSILONS[:4]))
    return _affine_channels(g, y)


def _instance(g: BlockGraph, x: Value, scale: np.ndarray, bias: np.ndarray) -> Value:
    epsilon = g.rng.choice(EPSILONS[:4])
    axes, by_channel = tuple(range(2, x.rank)), (-1, *(1,) * (x.rank - 2))

    def noisy(share):
        def function(a, s, b):
            y = _standardised(a, axes, epsilon, share)
            return y * s.reshape(by_channel) + b.reshape(by_channel)

        return function

    function = Composite(noisy(0.0), noisy)
    args = [x, g.constant(scale, x.dtype), g.constant(bias, x.dtype)]
    return g.rounded("InstanceNormalization", function, args, accumulates=True, epsilon=epsilon)


def batch_norm(g: BlockGraph, x: Value) -> Value:
    channels, by_channel = x.shape[1], (-1, *(1,) * (x.rank - 2))
    if x.dtype == "bfloat16":
        return _affine_channels(g, x)
    scale, bias, mean = (op.weight(g, channels) for _ in range(3))
    variance = g.constant(g.noise.uniform(0.5, 2.0, channels), x.dtype)

    def function(a, s, b, m, v):
        s, b, m, v = (p.reshape(by_channel) for p in (s, b, m, v))
        return (a - m) / np.sqrt(v + 1e-5) * s + b

    args = [x, scale, bias, mean, variance]
    return g.rounded("BatchNormalization", function, args, accumulates=True, epsilon=1e-5)


def layer_norm_of_channels(g: BlockGraph, x: Value) -> Value:
    """Over axis 1: as written for images, or turned to channels last and back (ConvNeXt)."""
    if g.rng.random() < 0.5:
        return _affine_channels(g, standard(g, x, (1,), g.rng.choice(EPSILONS[:4])))
    there = (0, *range(2, x.rank), 1)
    back = (0, x.rank - 1, *range(1, x.rank - 1))
    return op.transpose(g, layer_norm(g, op.transpose(g, x, *there)), *back)


def response_norm(g: BlockGraph, x: Value) -> Value | None:
    """Global response normalisation (ConvNeXt V2), channels at axis 1 or last."""
    if x.rank != 4:
        return None
    channel, space = g.rng.choice(((1, (2, 3)), (3, (1, 2))))
    length = op.reduced(g, "ReduceL2", x, space)
    mean = op.reduced(g, "ReduceMean", length, [channel])
    share = op.div(g, length, op.add(g, mean, op.number(g, 1e-6)))
    shape = [1] * 4
    shape[channel] = x.shape[channel]
    y = op.mul(g, op.mul(g, x, share), op.weight(g, *shape))
    return op.add(g, y, x)


def _square(g: BlockGraph, x: Value) -> Value:
    if g.rng.random() < 0.5:
        return op.mul(g, x, x)
    return g.rounded("Pow", np.square, [x], extra=[op.number(g, 2.0)])


def _by_root(g: BlockGraph, x: Value, square: Value, epsilon: float) -> Value:
    """x / sqrt(square + epsilon), as a division, a reciprocal or a power."""
    shifted = op.add(g, square, op.number(g, epsilon))
    how = g.rng.choice(("div", "div", "reciprocal", "power", "one over"))
    if how == "power":
        power = [op.number(g, -0.5)]
        return op.mul(g, x, g.rounded("Pow", lambda a: 1 / np.sqrt(a), [shifted], extra=power))
    root = op.sqrt(g, shifted)
    if how == "div":
        return op.div(g, x, root)
    if how == "reciprocal":
        return op.mul(g, x, g.rounded("Reciprocal", np.reciprocal, [root]))
    return op.mul(g, x, op.div(g, op.number(g, 1.0), root))


def _affine_rows(g: BlockGraph, x: Value) -> Value:
    if g.rng.random() < 0.8:
        x = op.mul(g, x, op.weight(g, x.shape[-1]))
    return op.add(g, x, op.weight(g, x.shape[-1])) if g.rng.random() < 0.8 else x


def _affine_channels(g: BlockGraph, x: Value) -> Value:
    shape = (x.shape[1], *(1,) * (x.rank - 2))
    if g.rng.random() < 0.7:
        x = op.mul(g, x, op.weight(g, *shape))
    return op.add(g, x, op.weight(g, *shape)) if g.rng.random() < 0.7 else x
