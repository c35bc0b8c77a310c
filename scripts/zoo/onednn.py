"""The MLP and attention subgraphs that oneDNN Graph Compiler was measured on (float forms).

Source: Li et al., "oneDNN Graph Compiler", CGO 2024, and its workload files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import onnx

from zoo.graph import Dim, Graph
from zoo.layers import linear

MLP_SIZES = {"mlp_1": (13, 512, 256, 128), "mlp_2": (479, 1024, 1024, 512, 256, 1)}
MHA_SIZES = {  # sequence, hidden, heads
    "mha_1": (128, 768, 8),
    "mha_2": (128, 768, 12),
    "mha_3": (384, 1024, 8),
    "mha_4": (512, 1024, 16),
}


def mlp(
    name: str,
    *,
    layers: int | None = None,
    batch: int = 32,
    sizes: Sequence[int] | None = None,
    dynamic: bool = False,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """Matmul, bias and ReLU per layer: x (batch, first size); `layers` keeps the first few."""
    sizes = MLP_SIZES[name] if sizes is None else tuple(sizes)
    sizes = sizes if layers is None else sizes[: layers + 1]
    g = Graph(name, dtype, opset, seed)
    rows: Dim = g.symbol("batch", batch) if dynamic else batch
    x = g.input("x", (rows, sizes[0]))
    for i, size in enumerate(pairwise(sizes)):
        x = g.op("Relu", linear(g, x, f"layers.{i}.", *size, gain=math.sqrt(2.0)))
    g.output(x, "y", (rows, sizes[-1]))
    return g.model()


def mha(
    name: str,
    *,
    batch: int = 32,
    seq: int | None = None,
    dtype: str = "float32",
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """Masked attention: query, key, value (batch, heads, seq, size), mask (batch, 1, 1, seq)."""
    default_seq, hidden, heads = MHA_SIZES[name]
    seq = default_seq if seq is None else seq
    g = Graph(name, dtype, opset, seed)
    shape = (batch, heads, seq, hidden // heads)
    query, key, value = (g.input(part, shape) for part in ("query", "key", "value"))
    mask = g.input("mask", (batch, 1, 1, seq))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=(0, 1, 3, 2)))
    scaled = g.op("Div", scores, g.constant(math.sqrt(hidden // heads)))
    weights = g.op("Softmax", g.op("Add", scaled, mask), axis=-1)
    context = g.op("Transpose", g.op("MatMul", weights, value), perm=(0, 2, 1, 3))
    g.output(g.reshape(context, (batch, seq, hidden)), "y", (batch, seq, hidden))
    return g.model()
