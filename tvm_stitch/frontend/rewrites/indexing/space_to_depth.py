"""SpaceToDepth by columns, which TVM's importer takes as by rows."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def space_to_depth(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: SpaceToDepth(x, mode=CRD) -> Reshape(Transpose(Reshape(x)))"""
    if node.op_type != "SpaceToDepth" or attributes(node).get("mode") != b"CRD":
        return None
    shape = graph.static_shape(node.input[0])
    if shape is None:
        return None
    build, size = Builder(graph, node), attributes(node)["blocksize"]
    n, c, h, w = shape
    x = build.reshape(node.input[0], [n, c, h // size, size, w // size, size])
    x = build("Transpose", x, perm=[0, 1, 3, 5, 2, 4])
    build.reshape(x, [n, c * size * size, h // size, w // size], out=node.output[0])
    return build.nodes
