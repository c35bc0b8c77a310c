"""BitShift by as many bits as a number has, more, or fewer than none: C has no result for that."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def wide_shift(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: BitShift(x, n) -> BitShift(x, n) where 0 <= n < bits, elsewhere no bit of x

    Of a negative number that is shifted right its sign is left.
    """
    known = graph.type_of(node.input[1]) if node.op_type == "BitShift" else None
    if known is None or node.domain:
        return None
    dtype, attrs = known.dtype, attributes(node)
    bits, count = dtype.itemsize * 8, graph.constant(node, 1)
    if count is not None and (count < bits).all() and (count >= 0).all():
        return None
    build = Builder(graph, node)
    least, most = build.constant(0, dtype), build.constant(bits - 1, dtype)
    held = build("Min", build("Max", node.input[1], least), most)
    inside = build("Equal", held, node.input[1])
    if dtype.kind == "i" and attrs["direction"] == b"RIGHT":
        places = build("Where", inside, held, most)
        build("BitShift", node.input[0], places, out=node.output[0], **attrs)
        return build.nodes
    shifted = build("BitShift", node.input[0], held, **attrs)
    build("Where", inside, shifted, least, out=node.output[0])
    return build.nodes
