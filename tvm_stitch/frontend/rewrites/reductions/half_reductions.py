"""Reductions of half precision whose importer rounds, or overflows, before the last step."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes

_HALF = (np.float16, ml_dtypes.bfloat16)
_STEPS = ("ReduceL2", "ReduceLogSum", "ReduceSumSquare")


def half_reductions(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: ReduceL2(x) -> Cast(ReduceL2(Cast(x, to=float32)), to=float16) for float16 x

    The square of 256 is no float16, its root is. ONNX Runtime computes these in float32 too.
    """
    if node.op_type not in _STEPS:
        return None
    known = graph.type_of(node.input[0])
    if known is None or known.dtype not in _HALF:
        return None
    build = Builder(graph, node)
    wide = build.cast(node.input[0], np.dtype(np.float32))
    reduced = build(node.op_type, wide, *node.input[1:], **attributes(node))
    build.cast(reduced, known.dtype, out=node.output[0])
    return build.nodes
