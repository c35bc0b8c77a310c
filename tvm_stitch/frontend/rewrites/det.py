"""Det: elimination, each column's largest element as its pivot, of any number of matrices."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph

_MOST = 64  # rows: a step of elimination each


def det(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Det(a) -> the product of pivots, negated for each exchange of rows"""
    shape = graph.static_shape(node.input[0]) if node.op_type == "Det" else None
    if shape is None or node.domain or shape[-1] > _MOST:
        return None
    build, dtype = Builder(graph, node), graph.type_of(node.input[0]).dtype
    left, size = build.reshape(node.input[0], [-1, *shape[-2:]]), shape[-1]
    result = build.constant(1, dtype)
    for rows in range(size, 0, -1):
        column = build.slice(left, 0, 1, 2)
        place = build("ArgMax", build("Abs", column), axis=1, keepdims=1)
        chosen = build("Equal", place, build.constant(np.arange(rows).reshape(1, rows, 1)))
        weight = build.cast(chosen, dtype)
        line = build.reduce("Sum", build("Mul", weight, left), [1])
        pivot = build.slice(line, 0, 1, 2)
        first = build("Equal", place, build.constant(0))
        sign = build("Where", first, build.constant(1, dtype), build.constant(-1, dtype))
        result = build("Mul", result, build("Mul", pivot, sign))
        if rows == 1:
            break
        moved = build("Where", chosen, build.slice(left, 0, 1, 1), left)
        rest = build.slice(moved, 1, rows, 1)
        zero = build("Equal", pivot, build.constant(0, dtype))
        divisor = build("Where", zero, build.constant(1, dtype), pivot)
        factor = build("Div", build.slice(rest, 0, 1, 2), divisor)
        below = build("Sub", rest, build("Mul", factor, line))
        left = build.slice(below, 1, rows, 2)
    build.reshape(result, list(shape[:-2]), out=node.output[0])
    return build.nodes
