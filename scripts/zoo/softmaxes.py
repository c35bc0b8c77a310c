"""Softmax and its neighbours: the subgraph builders, each with its float64 NumPy reference."""

from __future__ import annotations

import math

import numpy as np

from zoo.graph import Graph
from zoo.norms import Arrays, Shape
from zoo.weights import Float64Weights, lowest_number


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    exp = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return exp / exp.sum(axis, keepdims=True)


def softmax(g: Graph, shape: Shape, axis: int = -1, form: str = "op") -> None:
    """Softmax over `axis`; `form`: "op", or "decomposed": ReduceMax, Sub, Exp, ReduceSum, Div."""
    x = g.input("x", shape)
    if form == "op":
        y = g.op("Softmax", x, axis=axis)
    elif form == "decomposed":
        exp = g.op("Exp", g.op("Sub", x, g.reduce("ReduceMax", x, (axis,))))
        y = g.op("Div", exp, g.reduce("ReduceSum", exp, (axis,)))
    else:
        raise ValueError(f"form must be 'op' or 'decomposed', got {form!r}")
    g.output(y, "y", shape)


def softmax_reference(
    inputs: Arrays, _weights: Float64Weights, axis: int = -1, **_: object
) -> Arrays:
    return {"y": _softmax(inputs["x"], axis)}


def masked_softmax(
    g: Graph,
    shape: Shape,
    mask: str = "additive",
    fill: str = "min",
    head_size: int = 64,
) -> None:
    """Scores (..., S, T) divided by sqrt(head_size), masked, then softmax over T.

    `mask`: "additive" adds a float mask, "where" keeps what a boolean mask marks and gives the
    rest `fill`: "min" (lowest finite number) or "-inf". The mask is (B, 1, ..., 1, T).
    """
    x = g.input("x", shape)
    scaled = g.op("Div", x, g.constant(math.sqrt(head_size)))
    mask_shape = (*shape[:1], *[1] * (len(shape) - 2), shape[-1]) if len(shape) > 1 else shape
    if mask == "additive":
        masked = g.op("Add", scaled, g.input("mask", mask_shape))
    elif mask == "where":
        lowest = lowest_number(g.dtype) if fill == "min" else -math.inf
        masked = g.op("Where", g.input("mask", mask_shape, "bool"), scaled, g.constant(lowest))
    else:
        raise ValueError(f"mask must be 'additive' or 'where', got {mask!r}")
    g.output(g.op("Softmax", masked, axis=-1), "y", shape)


def masked_softmax_reference(
    inputs: Arrays,
    _weights: Float64Weights,
    mask: str = "additive",
    fill: str = "min",
    head_size: int = 64,
) -> Arrays:
    scaled = inputs["x"] / math.sqrt(head_size)
    if mask == "additive":
        return {"y": _softmax(scaled + inputs["mask"], -1)}
    lowest = np.finfo(np.float32).min if fill == "min" else -math.inf
    return {"y": _softmax(np.where(inputs["mask"], scaled, lowest), -1)}


def softmax_residual(g: Graph, shape: Shape, axis: int = -1) -> None:
    """`softmax(x) * weight + residual`: a reduction between a producer and two consumers."""
    y = g.op("Softmax", g.input("x", shape), axis=axis)
    scaled = g.op("Mul", y, g.weight("weight", shape[-1:], mean=1.0, std=0.1))
    g.output(g.op("Add", scaled, g.input("residual", shape)), "y", shape)


def softmax_residual_reference(inputs: Arrays, weights: Float64Weights, axis: int = -1) -> Arrays:
    weight = weights("weight", inputs["x"].shape[-1:], mean=1.0, std=0.1)
    return {"y": _softmax(inputs["x"], axis) * weight + inputs["residual"]}


def logsoftmax_nll(g: Graph, shape: Shape, mean: bool = False) -> None:
    """Negative log-likelihood of `target` under softmax(x) over the last axis; `mean`: of all."""
    x = g.input("x", shape)
    target = g.input("target", shape[:-1], "int64", below=shape[-1])
    log_probabilities = g.op("LogSoftmax", x, axis=-1)
    index = g.op("Unsqueeze", target, g.ints(-1))
    picked = g.op("GatherElements", log_probabilities, index, axis=-1)
    loss = g.op("Neg", g.op("Squeeze", picked, g.ints(-1)))
    if mean:
        g.output(g.op("ReduceMean", loss, keepdims=0), "loss", ())
    else:
        g.output(loss, "loss", shape[:-1])


def logsoftmax_nll_reference(
    inputs: Arrays, _weights: Float64Weights, mean: bool = False
) -> Arrays:
    x, target = inputs["x"], inputs["target"]
    shifted = x - x.max(-1, keepdims=True, initial=-np.inf)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    loss = -np.take_along_axis(log_probabilities, target[..., None], -1)[..., 0]
    return {"loss": np.asarray(loss.mean() if mean else loss)}
