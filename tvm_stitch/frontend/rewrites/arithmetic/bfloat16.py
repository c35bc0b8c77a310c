"""bfloat16 operands that TVM cannot lower: tests for NaN and infinity, casts to integers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def bfloat16_through_float(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Cast(x, to=int64) -> Cast(Cast(x, to=float32), to=int64) for bfloat16 x"""
    if node.op_type not in ("Cast", "IsNaN", "IsInf"):
        return None
    known, made = graph.type_of(node.input[0]), graph.type_of(node.output[0])
    if known is None or known.dtype != ml_dtypes.bfloat16 or made.dtype.kind not in "iub":
        return None
    build = Builder(graph, node)
    wide = build.cast(node.input[0], np.dtype(np.float32))
    build(node.op_type, wide, out=node.output[0], **attributes(node))
    return build.nodes
