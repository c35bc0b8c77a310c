"""Models whose fusion plans have runners-up of a kind."""

from __future__ import annotations

import onnx
import zoo


def read_again() -> onnx.ModelProto:
    """A condition of two inputs is counted, and read again by what comes behind a sort."""
    g = zoo.graph.Graph("read_again")
    shape = (64, 512)
    x, y = g.input("x", shape), g.input("y", shape)
    larger = g.op("Greater", x, y)
    count = g.op("ReduceSum", g.op("Cast", larger, to=onnx.TensorProto.FLOAT), g.ints(1))
    ordered, _ = g.op("TopK", count, g.ints(64), axis=0, outputs=2)
    g.output(
        g.op("Exp", g.op("Neg", g.op("Where", larger, ordered, g.constant(0.5)))), "out", shape
    )
    return g.model()
