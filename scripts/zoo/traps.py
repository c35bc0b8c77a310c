"""Graphs where fusing as much as one can loses time: what the planner must not fall for."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from zoo.graph import Graph
from zoo.layers import layer_norm


def exp_chain_then_broadcast() -> onnx.ModelProto:
    """A chain of transcendentals on a vector, added to every row: not to be inlined."""
    g = Graph("exp_chain_then_broadcast")
    b = g.input("b", (1024,))
    for kind in ("Tanh", "Exp", "Tanh", "Exp", "Tanh"):
        b = g.op(kind, b)
    g.output(g.op("Add", g.input("x", (2048, 1024)), b), "y", (2048, 1024))
    return g.model()


def pool_then_add() -> onnx.ModelProto:
    """A pooling window whose producer would be computed nine times (apache/tvm#20342)."""
    g = Graph("pool_then_add")
    x = g.op("Sigmoid", g.input("x", (1, 64, 112, 112)))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    g.output(g.op("Add", x, g.input("z", (1, 64, 112, 112))), "y", (1, 64, 112, 112))
    return g.model()


def huge_row_softmax() -> onnx.ModelProto:
    """Rows of 4 MiB: what a tile would keep overflows L2."""
    g = Graph("huge_row_softmax")
    x = g.op("Mul", g.input("x", (4, 1 << 20)), g.constant(0.125))
    g.output(g.op("Softmax", x, axis=-1), "y", (4, 1 << 20))
    return g.model()


def outer_reduction() -> onnx.ModelProto:
    """A reduction over the outer axis, and its result read by every row."""
    g = Graph("outer_reduction")
    x = g.op("Exp", g.input("x", (4096, 512)))
    g.output(g.op("Div", x, g.reduce("ReduceSum", x, [0])), "y", (4096, 512))
    return g.model()


def one_row_variance() -> onnx.ModelProto:
    """Mean and variance of a single row: no outer axis to number tiles."""
    g = Graph("one_row_variance")
    x = g.input("x", (1, 1 << 20))
    apart = g.op("Sub", x, g.reduce("ReduceMean", x, [1]))
    square = g.op("Mul", apart, apart)
    g.output(g.reduce("ReduceMean", square, [1]), "y", (1, 1))
    return g.model()


def many_outputs() -> onnx.ModelProto:
    """Twelve results of one tensor: as many streams of stores in one loop."""
    g = Graph("many_outputs")
    x = g.input("x", (512, 1024))
    for number in range(12):
        y = g.op("Tanh", g.op("Mul", x, g.constant(0.1 * (number + 1))))
        g.output(y, f"y{number}", (512, 1024))
    return g.model()


def two_norms_one_weight() -> onnx.ModelProto:
    """Two normalisations that share nothing but their weights."""
    g = Graph("two_norms_one_weight")
    for name, rows in (("a", 128), ("b", 1024)):
        y = layer_norm(g, g.input(name, (rows, 768)), "norm.", (768,))
        g.output(y, f"{name}_out", (rows, 768))
    return g.model()


def independent_chains() -> onnx.ModelProto:
    """Small chains that nothing connects: a region each, or one for all."""
    g = Graph("independent_chains")
    for number in range(8):
        x = g.input(f"x{number}", (32, 256))
        g.output(g.op("Tanh", g.op("Mul", x, x)), f"y{number}", (32, 256))
    return g.model()


TRAPS: dict[str, Callable[[], onnx.ModelProto]] = {
    build.__name__: build
    for build in (
        exp_chain_then_broadcast,
        pool_then_add,
        huge_row_softmax,
        outer_reduction,
        one_row_variance,
        many_outputs,
        two_norms_one_weight,
        independent_chains,
    )
}
