"""Several reductions in one graph: the subgraph builders, each with its float64 reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zoo.chains import sigmoid
from zoo.graph import Graph
from zoo.layers import EPS, conv, gemm, normalize
from zoo.norms import Arrays, Shape
from zoo.weights import Float64Weights

QUANT_LEVELS = 127.0


def default_group(columns: int) -> int:
    """Return the largest divisor of `columns` from 2 to 32, or the whole row if it has none."""
    return max((g for g in range(2, 33) if columns and columns % g == 0), default=max(columns, 1))


def row_then_group(g: Graph, shape: Shape, group: int | None = None, eps: float = EPS) -> None:
    """Normalise each row, then scale each group inside it by its largest magnitude over 127.

    Two outputs: y (..., C) within +-127 and scale (..., C / group).
    """
    group = group or default_group(shape[-1])
    normal = normalize(g, g.input("x", shape), (-1,), eps)
    grouped = g.reshape(normal, (*shape[:-1], shape[-1] // group, group))
    largest = g.reduce("ReduceMax", g.op("Abs", grouped), (-1,))
    scale = g.op("Div", g.op("Max", largest, g.constant(eps)), g.constant(QUANT_LEVELS))
    g.output(g.reshape(g.op("Div", grouped, scale), shape), "y", shape)
    narrow = (*shape[:-1], shape[-1] // group)
    g.output(g.reshape(scale, narrow), "scale", narrow)


def row_then_group_reference(
    inputs: Arrays, _weights: Float64Weights, group: int | None = None, eps: float = EPS
) -> Arrays:
    x = inputs["x"]
    group = group or default_group(x.shape[-1])
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    grouped = normal.reshape(*x.shape[:-1], x.shape[-1] // group, group)
    scale = np.maximum(np.abs(grouped).max(-1, initial=0.0), eps) / QUANT_LEVELS
    return {"y": (grouped / scale[..., None]).reshape(x.shape), "scale": scale}


def row_and_column(g: Graph, shape: Shape) -> None:
    """Sums of sigmoid(x) * y over the last axis and over all the others: two outputs."""
    product = g.op("Mul", g.op("Sigmoid", g.input("x", shape)), g.input("y", shape))
    others = range(len(shape) - 1)
    g.output(g.reduce("ReduceSum", product, (-1,), keepdims=False), "rows", shape[:-1])
    g.output(g.reduce("ReduceSum", product, others, keepdims=False), "columns", shape[-1:])


def row_and_column_reference(inputs: Arrays, _weights: Float64Weights) -> Arrays:
    product = sigmoid(inputs["x"]) * inputs["y"]
    return {"rows": product.sum(-1), "columns": product.sum(tuple(range(product.ndim - 1)))}


def mean_variance(
    g: Graph, shape: Shape, axes: Sequence[int] = (-1,), keepdims: bool = True
) -> None:
    """Mean and biased variance over `axes`: two outputs."""
    x = g.input("x", shape)
    mean = g.reduce("ReduceMean", x, axes)
    centred = g.op("Sub", x, mean)
    variance = g.reduce("ReduceMean", g.op("Mul", centred, centred), axes, keepdims)
    reduced = {axis % len(shape) for axis in axes}
    kept = tuple(
        1 if i in reduced else n for i, n in enumerate(shape) if keepdims or i not in reduced
    )
    g.output(mean if keepdims else g.op("Squeeze", mean, g.ints(*axes)), "mean", kept)
    g.output(variance, "variance", kept)


def mean_variance_reference(
    inputs: Arrays,
    _weights: Float64Weights,
    axes: Sequence[int] = (-1,),
    keepdims: bool = True,
) -> Arrays:
    x, axes = inputs["x"], tuple(axes)
    return {
        "mean": np.asarray(x.mean(axes, keepdims=keepdims)),
        "variance": np.asarray(x.var(axes, keepdims=keepdims)),
    }


def _squeezed(channels: int) -> int:
    return max(channels // 16, 1)


def squeeze_excite(g: Graph, shape: Shape, form: str = "conv") -> None:
    """Scale each channel of (N, C, ...) by a two-layer function of the channel means.

    `form`: "conv" is GlobalAveragePool and two 1x1 Conv (two spatial axes), "fc" is ReduceMean
    and two Gemm.
    """
    x, (batch, channels, *spatial) = g.input("x", shape), shape
    narrow = _squeezed(channels)
    if form == "conv":
        if len(spatial) != 2:
            raise ValueError(f"form 'conv' takes (N, C, H, W), got {shape}; use form='fc'")
        pooled = g.op("GlobalAveragePool", x)
        hidden = g.op("Relu", _pointwise(g, pooled, "reduce.", channels, narrow))
        gate = g.op("Sigmoid", _pointwise(g, hidden, "expand.", narrow, channels))
    elif form == "fc":
        pooled = g.reduce("ReduceMean", x, range(2, len(shape)), keepdims=False)
        hidden = g.op("Relu", gemm(g, pooled, "reduce.", channels, narrow))
        gate = g.op("Sigmoid", gemm(g, hidden, "expand.", narrow, channels))
        gate = g.reshape(gate, (batch, channels, *[1] * len(spatial)))
    else:
        raise ValueError(f"form must be 'conv' or 'fc', got {form!r}")
    g.output(g.op("Mul", x, gate), "y", shape)


def _pointwise(g: Graph, x: str, prefix: str, rows: int, columns: int) -> str:
    weight = g.weight(f"{prefix}weight", (columns, rows, 1, 1), std=rows**-0.5)
    return conv(g, x, weight, g.weight(f"{prefix}bias", (columns,), std=0.1), kernel=(1, 1))


def squeeze_excite_reference(inputs: Arrays, weights: Float64Weights, **_: object) -> Arrays:
    x = inputs["x"]
    channels = x.shape[1]
    narrow = _squeezed(channels)
    pooled = x.mean(tuple(range(2, x.ndim)))
    first = weights("reduce.weight", (narrow, channels), std=channels**-0.5)
    second = weights("expand.weight", (channels, narrow), std=narrow**-0.5)
    hidden = np.maximum(pooled @ first.T + weights("reduce.bias", (narrow,), std=0.1), 0.0)
    gate = sigmoid(hidden @ second.T + weights("expand.bias", (channels,), std=0.1))
    return {"y": x * gate.reshape(*gate.shape, *[1] * (x.ndim - 2))}
