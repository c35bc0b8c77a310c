"""Equality of booleans: TVM compares i1 as floats, which LLVM refuses."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph


def bool_equal(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Equal(a, b) -> Not(Xor(a, b)) for booleans"""
    if node.op_type != "Equal" or (known := graph.type_of(node.input[0])) is None:
        return None
    if known.dtype.kind != "b":
        return None
    build = Builder(graph, node)
    build("Not", build("Xor", *node.input), out=node.output[0])
    return build.nodes
