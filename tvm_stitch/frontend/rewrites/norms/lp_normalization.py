"""LpNormalization, which TVM's importer lacks."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def lp_normalization(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: LpNormalization(x, p) -> x / norm, where a norm of 0 counts as 1"""
    if node.op_type != "LpNormalization":
        return None
    dtype = graph.type_of(node.input[0]).dtype
    attrs, build = attributes(node), Builder(graph, node)
    norm = build.reduce(f"L{attrs.get('p', 2)}", node.input[0], [attrs.get("axis", -1)])
    zero = build("Equal", norm, build.constant(0, dtype))
    norm = build("Where", zero, build.constant(1, dtype), norm)
    build("Div", node.input[0], norm, out=node.output[0])
    return build.nodes
