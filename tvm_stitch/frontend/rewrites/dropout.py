"""Dropout at inference: its input, and a mask of ones."""

from __future__ import annotations

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph


def dropout(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: y, mask = Dropout(x) -> Identity(x), Expand(1, shape of x)

    Raises: StitchError if the node asks for training.
    """
    if node.op_type != "Dropout":
        return None
    training = graph.constant(node, 2)
    if training is not None and bool(training):
        raise StitchError(
            f"Dropout {node.name or node.output[0]!r}",
            "training_mode is set",
            "export the model for inference",
        )
    build = Builder(graph, node)
    build("Identity", node.input[0], out=node.output[0])
    if len(node.output) > 1 and node.output[1]:
        shape, mask = graph.static_shape(node.input[0]), graph.types[node.output[1]]
        one = build.constant(1, mask.dtype)
        build("Expand", one, build.constant(list(shape)), out=node.output[1])
    return build.nodes
