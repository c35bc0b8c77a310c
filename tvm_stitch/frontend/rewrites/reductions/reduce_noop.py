"""Reductions over no axis: TVM's importer drops the element-wise part of composite ones."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input

ELEMENTWISE = {"Sum": "Identity", "Mean": "Identity", "Max": "Identity", "Min": "Identity",
               "Prod": "Identity", "LogSumExp": "Identity", "L1": "Abs", "L2": "Abs",
               "LogSum": "Log", "SumSquare": "Mul"}  # fmt: skip


def reduce_over_nothing(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: ReduceSumSquare(x, axes=[], noop_with_empty_axes=1) -> Mul(x, x)"""
    attrs = attributes(node)
    if not node.op_type.startswith("Reduce") or not attrs.get("noop_with_empty_axes"):
        return None
    axes = graph.numbers(node, 1)
    if "axes" in attrs or (has_input(node, 1) and (axes is None or axes.size)):
        return None
    build = Builder(graph, node)
    op = ELEMENTWISE[node.op_type.removeprefix("Reduce")]
    operands = [node.input[0]] * (2 if op == "Mul" else 1)
    build(op, *operands, out=node.output[0])
    return build.nodes
