"""OneHot: TVM's needs constant indices' range and forgets negative ones."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def one_hot(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: OneHot(i, depth, [off, on]) -> Where(i == iota or i + depth == iota, on, off)"""
    if node.op_type != "OneHot":
        return None
    shape, depth = graph.static_shape(node.input[0]), graph.constant(node, 1)
    values = graph.type_of(node.input[2])
    if shape is None or depth is None or values is None:
        return None
    build, depth = Builder(graph, node), int(depth.item())
    axis = attributes(node).get("axis", -1) % (len(shape) + 1)
    indices = node.input[0]
    if graph.types.get(indices) is None or graph.types[indices].dtype != np.int64:
        indices = build.cast(indices, np.dtype(np.int64))
    indices = build.reshape(indices, [*shape[:axis], 1, *shape[axis:]])
    iota = np.arange(depth).reshape([-1 if a == axis else 1 for a in range(len(shape) + 1)])
    hot = build("Or", build("Equal", indices, build.constant(iota)),
                build("Equal", indices, build.constant(iota - depth)))  # fmt: skip
    off, on = (build("Gather", node.input[2], build.constant(i), axis=0) for i in (0, 1))
    build("Where", hot, on, off, out=node.output[0])
    return build.nodes
