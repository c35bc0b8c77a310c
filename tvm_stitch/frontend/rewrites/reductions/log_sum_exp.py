"""ReduceLogSumExp, whose importer subtracts an infinite maximum from itself."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input

WHERE_SINCE = 9


def log_sum_exp(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: ReduceLogSumExp(x) -> Log(ReduceSum(Exp(x - m))) + m, m: finite maxima, others 0"""
    if node.op_type != "ReduceLogSumExp" or graph.opset < WHERE_SINCE:
        return None
    known, result = graph.type_of(node.input[0]), graph.type_of(node.output[0])
    axes = attributes(node).get("axes") or graph.numbers(node, 1)
    if known is None or known.dtype.kind in "iub" or result is None or not result.static:
        return None
    if axes is None and has_input(node, 1):
        return None
    axes = list(range(len(known.shape))) if axes is None or not len(axes) else list(map(int, axes))
    build, x = Builder(graph, node), node.input[0]
    largest = build.reduce("Max", x, axes)
    finite = build("Less", build("Abs", largest), build.constant(np.inf, known.dtype))
    largest = build("Where", finite, largest, build.constant(0, known.dtype))
    total = build.reduce("Sum", build("Exp", build("Sub", x, largest)), axes)
    build.reshape(build("Add", build("Log", total), largest), result.shape, out=node.output[0])
    return build.nodes
