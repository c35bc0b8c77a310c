"""Mod of floats with the divisor's sign: exact where x - floor(x / y) * y is not."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def float_mod(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Mod(x, y) -> r + y where r = Mod(x, y, fmod=1) has the other sign, else r"""
    known = graph.type_of(node.input[0]) if node.op_type == "Mod" else None
    if known is None or node.domain or known.dtype.kind in "iub" or attributes(node).get("fmod"):
        return None
    build, dtype, y = Builder(graph, node), known.dtype, node.input[1]
    zero = build.constant(0, dtype)
    rest = build("Mod", node.input[0], y, fmod=1)
    below = build("Less", y, zero)
    crosses = build("Xor", build("Less", rest, zero), below)
    moved = build("Where", crosses, build("Add", rest, y), rest)
    signed = build("Where", below, build.constant(-0.0, dtype), zero)
    build("Where", build("Equal", rest, zero), signed, moved, out=node.output[0])
    return build.nodes
