"""Upsample by whole factors, whose scales TVM's importer does not read from an input."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def upsample(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Upsample(x, scales=[1, 1, 2, 2]) -> Reshape(Expand(Reshape(x)))"""
    if node.op_type != "Upsample":
        return None
    attrs, shape = attributes(node), graph.static_shape(node.input[0])
    scales = attrs.get("scales", graph.numbers(node, 1))
    if scales is None or shape is None or attrs.get("mode", b"nearest") != b"nearest":
        return None
    factors = np.asarray(scales, np.float64)
    if (factors != np.round(factors)).any():
        return None
    build, factors = Builder(graph, node), factors.astype(np.int64).tolist()
    apart = [e for extent in shape for e in (extent, 1)]
    spread = [e for pair in zip(shape, factors, strict=True) for e in pair]
    x = build("Expand", build.reshape(node.input[0], apart), build.constant(spread))
    build.reshape(x, [e * f for e, f in zip(shape, factors, strict=True)], out=node.output[0])
    return build.nodes
