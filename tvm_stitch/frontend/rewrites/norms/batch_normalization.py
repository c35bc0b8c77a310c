"""BatchNormalization at inference as one multiply-add per channel."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def batch_normalization(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: BatchNormalization(x, gamma, beta, mean, var) -> Add(Mul(x, scale), shift)

    Constants are folded in float64. Raises: StitchError if the node asks for training.
    """
    if node.op_type != "BatchNormalization":
        return None
    attrs = attributes(node)
    if attrs.get("training_mode") or any(node.output[1:]):
        raise StitchError(
            f"BatchNormalization {node.name or node.output[0]!r}",
            "it is in training mode",
            "export the model for inference",
        )
    known = graph.type_of(node.input[0])
    statistics = [graph.constant(node, position) for position in range(1, 5)]
    if known is None or known.shape is None or any(array is None for array in statistics):
        return None
    gamma, beta, mean, variance = (array.astype(np.float64) for array in statistics)
    scale = gamma / np.sqrt(variance + attrs.get("epsilon", 1e-5))
    shift = beta - mean * scale
    per_channel = (-1, *[1] * (len(known.shape) - 2)) if len(known.shape) > 1 else (-1,)
    build = Builder(graph, node)
    scaled = build("Mul", node.input[0], build.constant(scale.reshape(per_channel), known.dtype))
    build(
        "Add", scaled, build.constant(shift.reshape(per_channel), known.dtype), out=node.output[0]
    )
    return build.nodes
