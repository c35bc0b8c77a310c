"""CumProd: each product of one step more, in as many steps as there are bits in the extent."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def cum_prod(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: CumProd(x) -> for s = 1, 2, 4, ...: x = x * Pad(x, s behind ones)[:-s]

    Source: Hillis and Steele, Data Parallel Algorithms (1986): scans in log n steps.
    """
    axis = graph.numbers(node, 1) if node.op_type == "CumProd" else None
    shape = graph.static_shape(node.input[0]) if axis is not None else None
    if shape is None or node.domain:
        return None
    build, attrs, dtype = Builder(graph, node), attributes(node), graph.type_of(node.input[0]).dtype
    axis = int(axis[0]) % len(shape)
    backwards, size = bool(attrs.get("reverse", 0)), shape[axis]

    def moved(value: str, step: int) -> str:
        """Return elements so many places on, ones before them."""
        extents = [step if at == axis else extent for at, extent in enumerate(shape)]
        ones = build.constant(np.ones(extents), dtype)
        low, high = (step, size) if backwards else (0, size - step)
        kept = build.slice(value, low, high, axis)
        lines = [kept, ones] if backwards else [ones, kept]
        return build("Concat", *lines, axis=axis)

    x, step = node.input[0], 1
    if attrs.get("exclusive", 0):
        x = moved(x, 1)
    while step < size:
        x = build("Mul", x, moved(x, step))
        step *= 2
    build("Identity", x, out=node.output[0])
    return build.nodes
