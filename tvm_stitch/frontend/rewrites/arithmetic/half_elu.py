"""Elu of halves, whose importer mixes them with float32."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def half_elu(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Elu(x) -> Cast(Elu(Cast(x, float32))) for halves"""
    known = graph.type_of(node.input[0]) if node.op_type == "Elu" else None
    if known is None or node.domain or known.dtype.itemsize != 2:
        return None
    build = Builder(graph, node)
    made = build("Elu", build.cast(node.input[0], np.float32), **attributes(node))
    build.cast(made, known.dtype, out=node.output[0])
    return build.nodes
