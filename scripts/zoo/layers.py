"""Layers as PyTorch's exporter writes them, shared by the subgraphs and the whole models."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from zoo.graph import Graph

# 1e-5 as ONNX attributes hold it: 32 bits, which a float64 reference would tell apart.
EPS = float(np.float32(1e-5))


def normalize(g: Graph, x: str, axes: Sequence[int], eps: float) -> str:
    """`(x - mean) / sqrt(var + eps)`: ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div."""
    centred = g.op("Sub", x, g.reduce("ReduceMean", x, axes))
    variance = g.reduce("ReduceMean", g.op("Pow", centred, g.constant(2.0)), axes)
    return g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.constant(eps))))


def affine(g: Graph, x: str, prefix: str, shape: Sequence[int]) -> str:
    """`x * weight + bias`, both of `shape`."""
    scaled = g.op("Mul", x, g.weight(f"{prefix}weight", shape, mean=1.0, std=0.1))
    return g.op("Add", scaled, g.weight(f"{prefix}bias", shape, std=0.1))


def layer_norm(
    g: Graph,
    x: str,
    prefix: str,
    shape: Sequence[int],
    *,
    eps: float = EPS,
    decomposed: bool = True,
) -> str:
    """LayerNorm over the last len(shape) axes, as nine ops or as one (opset 17)."""
    if decomposed:
        return affine(g, normalize(g, x, range(-len(shape), 0), eps), prefix, shape)
    weight = g.weight(f"{prefix}weight", shape, mean=1.0, std=0.1)
    bias = g.weight(f"{prefix}bias", shape, std=0.1)
    return g.op("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=eps)


def gelu_erf(g: Graph, x: str) -> str:
    """Div, Erf, Add, Mul, Mul."""
    erf = g.op("Erf", g.op("Div", x, g.constant(math.sqrt(2.0))))
    return g.op("Mul", g.op("Mul", x, g.op("Add", erf, g.constant(1.0))), g.constant(0.5))


def gelu_tanh(g: Graph, x: str) -> str:
    """Hugging Face's `gelu_new`: Mul, Pow, Mul, Add, Mul, Tanh, Add, Mul."""
    half = g.op("Mul", x, g.constant(0.5))
    cubic = g.op("Mul", g.op("Pow", x, g.constant(3.0)), g.constant(0.044715))
    inner = g.op("Mul", g.op("Add", x, cubic), g.constant(math.sqrt(2.0 / math.pi)))
    return g.op("Mul", half, g.op("Add", g.op("Tanh", inner), g.constant(1.0)))


def linear(g: Graph, x: str, prefix: str, rows: int, columns: int, *, gain: float = 1.0) -> str:
    """`x @ weight + bias` for x of any rank (..., rows): MatMul, Add."""
    weight = g.weight(f"{prefix}weight", (rows, columns), std=gain * rows**-0.5)
    bias = g.weight(f"{prefix}bias", (columns,), std=0.1)
    return g.op("Add", bias, g.op("MatMul", x, weight))


def gemm(g: Graph, x: str, prefix: str, rows: int, columns: int, *, transposed: bool = True) -> str:
    """`x @ weight + bias` for x (N, rows): one Gemm, its weight (columns, rows) if transposed."""
    shape = (columns, rows) if transposed else (rows, columns)
    weight = g.weight(f"{prefix}weight", shape, std=rows**-0.5)
    bias = g.weight(f"{prefix}bias", (columns,), std=0.1)
    return g.op("Gemm", x, weight, bias, alpha=1.0, beta=1.0, transB=int(transposed))


def conv(
    g: Graph,
    x: str,
    weight: str,
    bias: str | None,
    *,
    kernel: Sequence[int],
    stride: Sequence[int] = (1, 1),
    pad: Sequence[int] = (0, 0),
    group: int = 1,
) -> str:
    """A Conv of two spatial axes with every attribute spelt out."""
    operands = (x, weight) if bias is None else (x, weight, bias)
    return g.op(
        "Conv",
        *operands,
        dilations=[1, 1],
        group=group,
        kernel_shape=list(kernel),
        pads=[*pad, *pad],
        strides=list(stride),
    )


def max_pool(
    g: Graph, x: str, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int] = (0, 0)
) -> str:
    """A MaxPool of two spatial axes."""
    return g.op(
        "MaxPool",
        x,
        ceil_mode=0,
        dilations=[1, 1],
        kernel_shape=list(kernel),
        pads=[*pad, *pad],
        strides=list(stride),
    )
