"""Element-wise chains: the subgraph builders, each with its float64 NumPy reference."""

from __future__ import annotations

import math

import numpy as np

from zoo.graph import Graph
from zoo.layers import EPS, gelu_erf, gelu_tanh
from zoo.norms import Arrays, Shape
from zoo.weights import Float64Weights

_erf = np.frompyfunc(math.erf, 1, 1)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Logistic function without overflow at either end."""
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def bias_gelu(g: Graph, shape: Shape, tanh: bool) -> None:
    """GELU of x + bias, exact (Erf) or Hugging Face's `gelu_new` (Tanh)."""
    biased = g.op("Add", g.input("x", shape), g.weight("bias", shape[-1:], std=0.1))
    g.output(gelu_tanh(g, biased) if tanh else gelu_erf(g, biased), "y", shape)


def bias_gelu_reference(inputs: Arrays, weights: Float64Weights, tanh: bool) -> Arrays:
    x = inputs["x"] + weights("bias", inputs["x"].shape[-1:], std=0.1)
    if tanh:
        inner = np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))
    else:
        inner = _erf(x / math.sqrt(2.0)).astype(np.float64)
    return {"y": 0.5 * x * (1.0 + inner)}


def bn_relu_residual(g: Graph, shape: Shape, relu: str = "before", eps: float = EPS) -> None:
    """BatchNormalization of (N, C, ...), then Relu `before` or `after` the Add of a residual."""
    channels = shape[1:2]
    statistics = (
        g.weight("weight", channels, mean=1.0, std=0.1),
        g.weight("bias", channels, std=0.1),
        g.weight("running_mean", channels, std=0.1),
        g.weight("running_var", channels, mean=1.0, std=0.1),
    )
    y = g.op("BatchNormalization", g.input("x", shape), *statistics, epsilon=eps)
    residual = g.input("residual", shape)
    if relu == "before":
        y = g.op("Add", g.op("Relu", y), residual)
    elif relu == "after":
        y = g.op("Relu", g.op("Add", y, residual))
    else:
        raise ValueError(f"relu must be 'before' or 'after', got {relu!r}")
    g.output(y, "y", shape)


def bn_relu_residual_reference(
    inputs: Arrays, weights: Float64Weights, relu: str = "before", eps: float = EPS
) -> Arrays:
    x, residual = inputs["x"], inputs["residual"]
    channels, broadcast = x.shape[1:2], (-1,) + (1,) * (x.ndim - 2)
    scale = weights("weight", channels, mean=1.0, std=0.1).reshape(broadcast)
    bias = weights("bias", channels, std=0.1).reshape(broadcast)
    mean = weights("running_mean", channels, std=0.1).reshape(broadcast)
    variance = weights("running_var", channels, mean=1.0, std=0.1).reshape(broadcast)
    y = (x - mean) / np.sqrt(variance + eps) * scale + bias
    if relu == "before":
        return {"y": np.maximum(y, 0.0) + residual}
    return {"y": np.maximum(y + residual, 0.0)}


def gru_gates(
    g: Graph, gates: tuple[str, str], hidden: str, size: int, attention: str | None = None
) -> str:
    """A GRU cell's element-wise part: gate pre-activations (..., 3H) and hidden state (..., H).

    Gates in PyTorch's order: reset, update, new. `attention` (..., 1) lessens the update gate,
    which makes it DIEN's AUGRU.
    """
    from_input, from_hidden = gates
    reset_x, update_x, new_x = g.split(from_input, [size] * 3)
    reset_h, update_h, new_h = g.split(from_hidden, [size] * 3)
    reset = g.op("Sigmoid", g.op("Add", reset_x, reset_h))
    update = g.op("Sigmoid", g.op("Add", update_x, update_h))
    if attention is not None:
        update = g.op("Mul", update, g.op("Sub", g.constant(1.0), attention))
    new = g.op("Tanh", g.op("Add", new_x, g.op("Mul", reset, new_h)))
    kept = g.op("Mul", update, hidden)
    return g.op("Add", g.op("Mul", g.op("Sub", g.constant(1.0), update), new), kept)


def gru_cell(g: Graph, shape: Shape) -> None:
    """`gru_gates` of two inputs (..., 3H); `shape` is the hidden state's (..., H)."""
    wide = (*shape[:-1], 3 * shape[-1])
    gates = g.input("gates_x", wide), g.input("gates_h", wide)
    g.output(gru_gates(g, gates, g.input("hidden", shape), shape[-1]), "y", shape)


def gru_cell_reference(inputs: Arrays, _weights: Float64Weights) -> Arrays:
    reset_x, update_x, new_x = np.split(inputs["gates_x"], 3, -1)
    reset_h, update_h, new_h = np.split(inputs["gates_h"], 3, -1)
    update = sigmoid(update_x + update_h)
    new = np.tanh(new_x + sigmoid(reset_x + reset_h) * new_h)
    return {"y": (1.0 - update) * new + update * inputs["hidden"]}
