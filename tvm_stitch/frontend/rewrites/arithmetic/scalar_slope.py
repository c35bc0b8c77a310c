"""PRelu of a scalar: TVM's takes the slopes of channels."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph


def scalar_slope(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: PRelu(x: scalar, slope) -> Where(x < 0, slope * x, x)"""
    if node.op_type != "PRelu" or graph.static_shape(node.input[0]) != ():
        return None
    build, x = Builder(graph, node), node.input[0]
    below = build("Less", x, build.constant(0, graph.type_of(x).dtype))
    build("Where", below, build("Mul", x, node.input[1]), x, out=node.output[0])
    return build.nodes
