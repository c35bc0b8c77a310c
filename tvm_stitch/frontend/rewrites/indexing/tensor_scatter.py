"""TensorScatter: lines of a cache, replaced from a place of each batch on, around its end too."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input


def tensor_scatter(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: TensorScatter(x, u, at) -> Where(0 <= t - at < n, GatherElements(u, t - at), x)"""
    shape = graph.static_shape(node.input[0]) if node.op_type == "TensorScatter" else None
    if shape is None or node.domain or (new := graph.static_shape(node.input[1])) is None:
        return None
    attrs, build, rank = attributes(node), Builder(graph, node), len(shape)
    axis = attrs.get("axis", -2) % rank
    size, count = shape[axis], new[axis]
    places = np.arange(size).reshape([-1 if at == axis else 1 for at in range(rank)])
    behind = build.constant(places)
    if has_input(node, 2):
        first = build.reshape(node.input[2], [-1, *[1] * (rank - 1)])
        behind = build("Sub", behind, first)
    if attrs.get("mode", b"linear") == b"circular":
        behind = build("Mod", behind, build.constant(size))
    low, high = build.constant(0), build.constant(count - 1)
    index = build("Min", build("Max", behind, low), high)
    inside = build("Equal", index, behind)
    index = build("Expand", index, build.constant(list(shape)))
    found = build("GatherElements", node.input[1], index, axis=axis)
    build("Where", inside, found, node.input[0], out=node.output[0])
    return build.nodes
