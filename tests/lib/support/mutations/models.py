"""Small models, each with a kernel that some mutation makes wrong."""

from __future__ import annotations

import numpy as np
import onnx
import zoo

Graph = zoo.graph.Graph


def _model(g: Graph, made: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    g.output(made, "y", shape)
    return g.model()


def ragged_rows() -> onnx.ModelProto:
    g = Graph("ragged_rows")
    x = g.input("x", (17, 77))
    return _model(g, g.op("Exp", g.op("Neg", g.op("Abs", x))), (17, 77))


def row_maxima() -> onnx.ModelProto:
    g = Graph("row_maxima")
    x = g.op("Neg", g.op("Abs", g.input("x", (33, 100))))
    return _model(g, g.op("ReduceMax", x, axes=[1], keepdims=0), (33,))


def streamed_sums() -> onnx.ModelProto:
    """Summed into memory: the loops inside the sum's are two."""
    g = Graph("streamed_sums")
    x = g.op("Mul", g.input("x", (40, 5, 50)), g.weight("w", (5, 1), std=1.0))
    return _model(g, g.op("ReduceSum", x, g.ints(0), keepdims=0), (5, 50))


def tall_column_sums() -> onnx.ModelProto:
    """Summed in parts by several threads, and these added up."""
    g = Graph("tall_column_sums")
    x = g.op("Exp", g.input("x", (4099, 64)))
    return _model(g, g.op("ReduceSum", x, g.ints(0), keepdims=0), (64,))


def softmax_rows() -> onnx.ModelProto:
    g = Graph("softmax_rows")
    return _model(g, g.op("Softmax", g.input("x", (251, 512)), axis=-1), (251, 512))


def scores_read_again() -> onnx.ModelProto:
    """A softmax of what is read again behind it."""
    g = Graph("scores_read_again")
    x = g.input("x", (96, 640))
    scores = g.op("Mul", g.op("Tanh", x), g.op("Sigmoid", x))
    return _model(g, g.op("Mul", g.op("Softmax", scores, axis=-1), scores), (96, 640))


def product() -> onnx.ModelProto:
    g = Graph("product")
    x = g.input("x", (17, 64))
    made = g.op("MatMul", x, g.weight("w", (64, 96), std=0.3))
    made = g.op("Add", made, g.weight("b", (96,), std=0.3))
    return _model(g, g.op("Relu", made), (17, 96))


def product_with_residual() -> onnx.ModelProto:
    g = Graph("product_with_residual")
    x, r = g.input("x", (17, 64)), g.input("r", (17, 96))
    made = g.op("MatMul", x, g.weight("w", (64, 96), std=0.3))
    return _model(g, g.op("Mul", made, r), (17, 96))


def chain() -> onnx.ModelProto:
    """Two products with a residual around them: intermediates that live long."""
    g = Graph("chain")
    x = g.input("x", (64, 96))
    for number in range(3):
        made = g.op("MatMul", x, g.weight(f"w{number}", (96, 96), std=0.1))
        x = g.op("Add", made, g.op("Softmax", g.op("Relu", made), axis=0))
    return _model(g, x, (64, 96))


def convolution(depthwise: bool = False) -> onnx.ModelProto:
    g = Graph("convolution")
    x = g.input("x", (1, 32, 9, 11))
    weight = g.weight("w", (32, 1 if depthwise else 32, 3, 3), std=0.3)
    made = g.op("Conv", x, weight, pads=[1, 1, 1, 1], group=32 if depthwise else 1)
    return _model(g, g.op("Relu", made), (1, 32, 9, 11))


def depthwise() -> onnx.ModelProto:
    return convolution(depthwise=True)


def large_convolution() -> onnx.ModelProto:
    """By minimal filtering."""
    g = Graph("large_convolution")
    x = g.input("x", (1, 64, 16, 16))
    made = g.op("Conv", x, g.weight("w", (64, 64, 3, 3), std=0.05), pads=[1, 1, 1, 1])
    return _model(g, made, (1, 64, 16, 16))


def group_norm() -> onnx.ModelProto:
    """Sums over what a reshape makes one axis of."""
    g = Graph("group_norm")
    x = g.input("x", (2, 12, 40))
    parts = g.op("Reshape", x, g.ints(2, 4, 3 * 40))
    mean = g.op("ReduceMean", parts, axes=[2], keepdims=1)
    made = g.op("Reshape", g.op("Sub", parts, mean), g.ints(2, 12, 40))
    return _model(g, g.op("Mul", made, g.weight("w", (12, 1), std=1.0)), (2, 12, 40))


def attention(keys: int, masked: bool = False) -> onnx.ModelProto:
    g, rows = Graph("attention"), 64
    q, k, v = (g.input(name, (1, 2, n, 32)) for name, n in (("q", rows), ("k", keys), ("v", keys)))
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.op("Mul", scores, g.constant(32**-0.5))
    if masked:
        mask = g.op("Greater", g.input("mask", (rows, keys)), g.constant(-0.5))
        scores = g.op("Where", mask, scores, g.constant(-np.inf))
    weights = g.op("Softmax", scores, axis=-1)
    return _model(g, g.op("MatMul", weights, v), (1, 2, rows, 32))


def long_attention() -> onnx.ModelProto:
    return attention(keys=1100)


def masked_attention() -> onnx.ModelProto:
    return attention(keys=600, masked=True)
