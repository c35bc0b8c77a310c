"""Operators of com.microsoft that ONNX Runtime's optimiser writes, in ONNX's own operators."""

from __future__ import annotations

import math

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input

# Each with the number of its inputs that are no option.
MICROSOFT_OPS = {
    "BiasGelu": 2,
    "FastGelu": 1,
    "Gelu": 1,
    "QuickGelu": 1,
    "SkipLayerNormalization": 3,
}


def microsoft(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Gelu(x) -> 0.5 * x * (1 + Erf(x / sqrt(2))), and so on"""
    if node.domain != "com.microsoft" or node.op_type not in MICROSOFT_OPS:
        return None
    _check_inputs(graph, node)
    build = Builder(graph, node)
    if node.op_type == "SkipLayerNormalization":
        _skip_layer_normalization(graph, node, build)
        return build.nodes
    x = build("Add", *node.input) if len(node.input) > 1 and node.input[1] else node.input[0]
    dtype = graph.type_of(node.input[0]).dtype
    if node.op_type == "QuickGelu":
        alpha = build.constant(attributes(node).get("alpha", 1.702), dtype)
        build("Mul", x, build("Sigmoid", build("Mul", x, alpha)), out=node.output[0])
        return build.nodes
    if node.op_type == "FastGelu":
        cube = build("Mul", build("Mul", x, x), x)
        inner = build("Add", x, build("Mul", cube, build.constant(0.044715, dtype)))
        inner = build("Mul", inner, build.constant(math.sqrt(2 / math.pi), dtype))
        step = build("Tanh", inner)
    else:
        step = build("Erf", build("Mul", x, build.constant(math.sqrt(0.5), dtype)))
    step = build("Add", step, build.constant(1, dtype))
    half = build("Mul", x, build.constant(0.5, dtype))
    build("Mul", half, step, out=node.output[0])
    return build.nodes


def _check_inputs(graph: Graph, node: onnx.NodeProto) -> None:
    """Raise StitchError for inputs left out: ONNX's inference does not know these operators."""
    where = f"{node.op_type} {node.name or node.output[0]!r}"
    needed = MICROSOFT_OPS[node.op_type]
    if not all(has_input(node, place) for place in range(needed)):
        raise StitchError(where, f"it has fewer than {needed} inputs", "export the model again")
    if graph.type_of(node.input[0]) is None:
        raise StitchError(where, "its input's type is unknown", "export the model again")


def _skip_layer_normalization(graph: Graph, node: onnx.NodeProto, build: Builder) -> None:
    known = graph.type_of(node.input[0])
    if len(node.output) > 1 and any(node.output[1:3]):
        raise StitchError(
            f"SkipLayerNormalization {node.name or node.output[0]!r}",
            "its statistics outputs are not supported",
            "export without them",
        )
    total = build("Add", node.input[0], node.input[1])
    if has_input(node, 4):
        total = build("Add", total, node.input[4])
    epsilon = attributes(node).get("epsilon", 1e-12)
    y, _, _ = build.normalised(total, [-1], epsilon, known.dtype)
    if has_input(node, 3):
        build("Add", build("Mul", y, node.input[2]), node.input[3], out=node.output[0])
    else:
        build("Mul", y, node.input[2], out=node.output[0])
    if len(node.output) > 3:
        build("Identity", total, out=node.output[3])
