"""Normalisations: the subgraph builders, each with its float64 NumPy reference.

A builder takes (graph, shape of `x`, options); its reference takes (float64 inputs, weights,
the same options) and returns float64 outputs. Weights come from their names, so both see the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from zoo.graph import Graph
from zoo.layers import EPS, affine, layer_norm, normalize
from zoo.weights import Float64Weights

Arrays = dict[str, np.ndarray]
Shape = tuple[int, ...]


def _normal(x: np.ndarray, axes: Sequence[int], eps: float) -> np.ndarray:
    centred = x - x.mean(tuple(axes), keepdims=True)
    return centred / np.sqrt((centred**2).mean(tuple(axes), keepdims=True) + eps)


def _affine(x: np.ndarray, weights: Float64Weights, shape: Shape) -> np.ndarray:
    return x * weights("weight", shape, mean=1.0, std=0.1) + weights("bias", shape, std=0.1)


def layernorm(g: Graph, shape: Shape, decomposed: bool, axis: int = -1, eps: float = EPS) -> None:
    """LayerNorm over the axes from `axis` (negative) on."""
    y = layer_norm(g, g.input("x", shape), "", shape[axis:], eps=eps, decomposed=decomposed)
    g.output(y, "y", shape)


def layernorm_reference(
    inputs: Arrays, weights: Float64Weights, axis: int = -1, eps: float = EPS, **_: object
) -> Arrays:
    x = inputs["x"]
    return {"y": _affine(_normal(x, range(axis, 0), eps), weights, x.shape[axis:])}


def residual_layernorm(
    g: Graph, shape: Shape, decomposed: bool = True, with_sum: bool = False, eps: float = EPS
) -> None:
    """LayerNorm of x + residual; `with_sum` also puts the sum out, as pre-norm blocks need it."""
    total = g.op("Add", g.input("x", shape), g.input("residual", shape))
    y = layer_norm(g, total, "", shape[-1:], eps=eps, decomposed=decomposed)
    g.output(y, "y", shape)
    if with_sum:
        g.output(total, "sum", shape)


def residual_layernorm_reference(
    inputs: Arrays,
    weights: Float64Weights,
    with_sum: bool = False,
    eps: float = EPS,
    **_: object,
) -> Arrays:
    total = inputs["x"] + inputs["residual"]
    outputs = {"y": _affine(_normal(total, (-1,), eps), weights, total.shape[-1:])}
    return outputs | {"sum": total} if with_sum else outputs


def rmsnorm(g: Graph, shape: Shape, reciprocal: bool = False, eps: float = EPS) -> None:
    """`x / sqrt(mean(x^2) + eps) * weight`; `reciprocal` writes the division as 1/sqrt times x."""
    x = g.input("x", shape)
    mean = g.reduce("ReduceMean", g.op("Pow", x, g.constant(2.0)), (-1,))
    root = g.op("Sqrt", g.op("Add", mean, g.constant(eps)))
    normal = g.op("Mul", x, g.op("Reciprocal", root)) if reciprocal else g.op("Div", x, root)
    weight = g.weight("weight", shape[-1:], mean=1.0, std=0.1)
    g.output(g.op("Mul", weight, normal), "y", shape)


def rmsnorm_reference(
    inputs: Arrays, weights: Float64Weights, eps: float = EPS, **_: object
) -> Arrays:
    x = inputs["x"]
    normal = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return {"y": normal * weights("weight", x.shape[-1:], mean=1.0, std=0.1)}


def groupnorm(
    g: Graph,
    shape: Shape,
    groups: int | None = None,
    form: str = "instance",
    eps: float = EPS,
) -> None:
    """GroupNorm of (N, C, ...): Reshape, normalise each group, Reshape, scale and shift a channel.

    `form`: "instance" normalises with InstanceNormalization, "decomposed" with nine small ops.
    """
    groups = groups or math.gcd(shape[1], 32)
    x = g.input("x", shape)
    inner = math.prod(shape[1:]) // groups
    grouped = g.reshape(x, (shape[0], groups, inner))
    if form == "instance":
        ones = g.constant(np.ones(groups))
        zeros = g.constant(np.zeros(groups))
        normal = g.op("InstanceNormalization", grouped, ones, zeros, epsilon=eps)
    elif form == "decomposed":
        normal = normalize(g, grouped, (-1,), eps)
    else:
        raise ValueError(f"form must be 'instance' or 'decomposed', got {form!r}")
    channel = (shape[1],) + (1,) * (len(shape) - 2)
    g.output(affine(g, g.reshape(normal, shape), "", channel), "y", shape)


def groupnorm_reference(
    inputs: Arrays,
    weights: Float64Weights,
    groups: int | None = None,
    eps: float = EPS,
    **_: object,
) -> Arrays:
    x = inputs["x"]
    groups = groups or math.gcd(x.shape[1], 32)
    grouped = x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    normal = _normal(grouped, (-1,), eps).reshape(x.shape)
    return {"y": _affine(normal, weights, (x.shape[1],) + (1,) * (x.ndim - 2))}


def l2_normalize(
    g: Graph, shape: Shape, axis: int = -1, form: str = "op", eps: float = 1e-6
) -> None:
    """`x / max(norm(x), eps)`; `form`: "op" uses ReduceL2 and Expand, "decomposed" neither."""
    x = g.input("x", shape)
    if form == "op":
        norm = g.op("Clip", g.reduce("ReduceL2", x, (axis,)), g.constant(eps))
        norm = g.op("Expand", norm, g.op("Shape", x))
    elif form == "decomposed":
        norm = g.op("Sqrt", g.reduce("ReduceSum", g.op("Mul", x, x), (axis,)))
        norm = g.op("Max", norm, g.constant(eps))
    else:
        raise ValueError(f"form must be 'op' or 'decomposed', got {form!r}")
    g.output(g.op("Div", x, norm), "y", shape)


def l2_normalize_reference(
    inputs: Arrays, _weights: Float64Weights, axis: int = -1, eps: float = 1e-6, **_: object
) -> Arrays:
    x = inputs["x"]
    return {"y": x / np.maximum(np.sqrt((x**2).sum(axis, keepdims=True)), eps)}
