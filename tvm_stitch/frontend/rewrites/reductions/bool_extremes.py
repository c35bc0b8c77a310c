"""ReduceMax and ReduceMin of truth values, and of no values at all."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def extremes(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: ReduceMax(bool x) -> Cast(ReduceMax(Cast(x, int8)))
    ReduceMax(x of no elements) -> the least of its type"""
    if node.op_type not in ("ReduceMax", "ReduceMin") or node.domain:
        return None
    known, made = graph.type_of(node.input[0]), graph.static_shape(node.output[0])
    if known is None or not known.static or made is None:
        return None
    build, most = Builder(graph, node), node.op_type == "ReduceMax"
    if math.prod(known.shape) == 0 and math.prod(made) > 0:
        value = np.full(made, _start(known.dtype, most), known.dtype)
        build("Identity", build.constant(value, known.dtype), out=node.output[0])
        return build.nodes
    if known.dtype != np.bool_:
        return None
    rest = list(node.input[1:])
    found = build(node.op_type, build.cast(node.input[0], np.int8), *rest, **attributes(node))
    build.cast(found, np.bool_, out=node.output[0])
    return build.nodes


def _start(dtype: np.dtype, most: bool) -> float | bool:
    """Return what changes no largest or smallest element."""
    if dtype == np.bool_:
        return not most
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if most else limits.max
    return -math.inf if most else math.inf
