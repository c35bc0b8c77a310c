"""Compress by a known condition: a Gather."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def compress(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Compress(x, [0, 1, 1]) -> Gather(x, [1, 2])"""
    condition = graph.constant(node, 1) if node.op_type == "Compress" else None
    if condition is None or node.domain or (shape := graph.static_shape(node.input[0])) is None:
        return None
    build, axis, x = Builder(graph, node), attributes(node).get("axis"), node.input[0]
    if axis is None:
        x, shape, axis = build.reshape(x, [-1]), (int(np.prod(shape)),), 0
    kept = np.flatnonzero(condition[: shape[axis]])
    build("Gather", x, build.constant(kept), out=node.output[0], axis=axis)
    return build.nodes
