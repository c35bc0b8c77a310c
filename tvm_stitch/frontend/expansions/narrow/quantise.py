"""QuantizeLinear to narrow types and DequantizeLinear of narrow floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx

from tvm_stitch.frontend.expansions.narrow.cast import rounded_to
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.onnx_graph.narrow import Narrow, narrow_of, narrow_type
from tvm_stitch.frontend.rewrites.quantised.blocks import spread


def narrow_quantise(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: QuantizeLinear(x, s, int4 z) -> Clip(Round(x / s) + z, -8, 7)"""
    if node.op_type != "QuantizeLinear" or node.domain:
        return None
    known = _made(graph, node)
    if known is None or graph.static_shape(node.input[0]) is None:
        return None
    build = Builder(graph, node)
    graph.narrow[node.output[0]] = known.dtype.name
    scale = build.cast(spread(build, node, 1), np.float32)
    value = build("Div", build.cast(node.input[0], np.float32), scale)
    if not known.is_integer:
        saturate = bool(attributes(node).get("saturate", 1))
        build("Identity", rounded_to(build, value, known, saturate), out=node.output[0])
        return build.nodes
    value = build("Round", value)
    if has_input(node, 2):
        value = build("Add", value, build.cast(spread(build, node, 2), np.float32))
    low, high = (build.constant(end, np.float32) for end in known.limits)
    build.cast(build("Min", build("Max", value, low), high), known.wide, out=node.output[0])
    return build.nodes


def _made(graph: Graph, node: onnx.NodeProto) -> Narrow | None:
    """Return the narrow type that a node quantises to."""
    if has_input(node, 2) and node.input[2] in graph.narrow:
        return narrow_of(np.dtype(getattr(ml_dtypes, graph.narrow[node.input[2]])))
    return narrow_type(attributes(node).get("output_dtype", 0))


def narrow_dequantise(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: DequantizeLinear(float8 x, s) -> x * s"""
    known = graph.type_of(node.input[0]) if node.op_type == "DequantizeLinear" else None
    if known is None or node.domain or known.dtype != np.float32:
        return None
    build, dtype = Builder(graph, node), graph.type_of(node.input[1]).dtype
    value = node.input[0]
    if has_input(node, 2):
        value = build("Sub", value, spread(build, node, 2))
    made = build("Mul", value, build.cast(spread(build, node, 1), np.float32))
    build.cast(made, dtype, out=node.output[0])
    return build.nodes
