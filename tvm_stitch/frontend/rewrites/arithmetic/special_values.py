"""Element-wise operators whose importer forgets NaN, infinities or flags."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def sign_of_nan(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Sign(x) -> Where(IsNaN(x), x, Sign(x)); of unsigned numbers -> Cast(x > 0)"""
    if node.op_type != "Sign" or (known := graph.type_of(node.input[0])) is None:
        return None
    build, (x,) = Builder(graph, node), node.input
    if known.dtype.kind == "u":  # TVM's has a -1, which they cannot be
        positive = build("Greater", x, build.constant(0, known.dtype))
        build.cast(positive, known.dtype, out=node.output[0])
        return build.nodes
    if known.dtype.kind in "ib":
        return None
    build("Where", build("IsNaN", x), x, build("Sign", x), out=node.output[0])
    return build.nodes


def one_sided_isinf(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: IsInf(x, detect_negative=0) -> Equal(x, inf); with neither -> Less(x, x), never"""
    if node.op_type != "IsInf" or (known := graph.type_of(node.input[0])) is None:
        return None
    attrs = attributes(node)
    negative, positive = attrs.get("detect_negative", 1), attrs.get("detect_positive", 1)
    if negative and positive:
        return None
    build, (x,) = Builder(graph, node), node.input
    if negative or positive:
        infinity = build.constant(np.inf if positive else -np.inf, known.dtype)
        build("Equal", x, infinity, out=node.output[0])
    else:
        build("Less", x, x, out=node.output[0])
    return build.nodes


def thresholded_relu(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: ThresholdedRelu(x, alpha) -> Where(x > alpha, x, 0), not a product with 0 or 1"""
    if node.op_type != "ThresholdedRelu" or (known := graph.type_of(node.input[0])) is None:
        return None
    build, (x,) = Builder(graph, node), node.input
    alpha = build.constant(attributes(node).get("alpha", 1.0), known.dtype)
    build(
        "Where", build("Greater", x, alpha), x, build.constant(0, known.dtype), out=node.output[0]
    )
    return build.nodes


def clip_to_finite(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Clip(x, low) -> Clip(x, low, largest finite): what ONNX says of a bound left out"""
    if node.op_type != "Clip" or (known := graph.type_of(node.input[0])) is None:
        return None
    bounds = [*node.input[1:], "", ""][:2]
    is_float = known.dtype.kind == "f" or known.dtype == ml_dtypes.bfloat16
    if all(bounds) or not is_float or {"min", "max"} & attributes(node).keys():
        return None
    build, limits = Builder(graph, node), ml_dtypes.finfo(known.dtype)
    ends = (limits.min, limits.max)
    low, high = (
        bound or build.constant(end, known.dtype) for bound, end in zip(bounds, ends, strict=True)
    )
    build("Clip", node.input[0], low, high, out=node.output[0])
    return build.nodes


def clip_by_constants(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Clip(x, low, high) -> Where(y > high, high, y), y = Where(x < low, low, x)

    The importer makes kernels of a Clip at once, which no pass on Relax operators sees through.
    """
    bounds = [graph.constants.get(name) for name in node.input[1:]]
    if node.op_type != "Clip" or len(bounds) < 2:
        return None
    if any(bound is None or bound.ndim or np.isnan(bound) for bound in bounds):
        return None
    build, (x, low, high) = Builder(graph, node), node.input
    above = build("Where", build("Less", x, low), low, x)
    build("Where", build("Greater", above, high), high, above, out=node.output[0])
    return build.nodes
