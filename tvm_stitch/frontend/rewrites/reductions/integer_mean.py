"""Means of integers: Relax widens them to int64, ONNX keeps their type and truncates."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def integer_mean(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: ReduceMean(x) -> Div(ReduceSum(x), count)"""
    if node.op_type != "ReduceMean":
        return None
    known, shape = graph.type_of(node.input[0]), graph.static_shape(node.input[0])
    reduced = graph.static_shape(node.output[0])
    if known is None or known.dtype.kind not in "iu" or shape is None or reduced is None:
        return None
    attrs = attributes(node)
    axes = attrs.get("axes", graph.numbers(node, 1))
    axes = range(len(shape)) if axes is None or not len(axes) else axes
    build = Builder(graph, node)
    total = build.reduce("Sum", node.input[0], [int(a) for a in axes], attrs.get("keepdims", 1))
    count = int(np.prod([shape[a] for a in axes]))
    build("Div", total, build.constant(count, known.dtype), out=node.output[0])
    return build.nodes
