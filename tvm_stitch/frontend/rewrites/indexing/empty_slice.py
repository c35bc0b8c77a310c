"""Slices of nothing: TVM counts the elements between crossed ends below zero."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, has_input


def empty_slice(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Slice(x, start=5, end=2) -> Slice(x, start=0, end=0)"""
    if node.op_type != "Slice" or graph.opset < 10:
        return None
    shape = graph.static_shape(node.input[0])
    given = [
        graph.numbers(node, place) if has_input(node, place) else None for place in (1, 2, 3, 4)
    ]
    if shape is None or given[0] is None or given[1] is None:
        return None
    starts, ends = given[:2]
    axes = np.arange(len(starts)) if given[2] is None else given[2]
    steps = np.ones(len(starts), np.int64) if given[3] is None else given[3]
    ends_of = zip(starts.tolist(), ends.tolist(), axes.tolist(), steps.tolist(), strict=True)
    empty = [not _count(shape[axis], start, end, step) for start, end, axis, step in ends_of]
    # What is given as 0 to 0 is left: the rewrite would not end.
    done = (starts == 0) & (ends == 0) & (steps == 1)
    if not any(np.asarray(empty) & ~done):
        return None
    build = Builder(graph, node)
    kept = ~np.asarray(empty)
    lists = [starts * kept, ends * kept, axes, np.where(kept, steps, 1)]
    build("Slice", node.input[0], *map(build.constant, lists), out=node.output[0])
    return build.nodes


def _count(extent: int, start: int, end: int, step: int) -> int:
    """Return how many elements ONNX takes of an axis."""
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    start, end = (min(max(at + extent if at < 0 else at, low), high) for at in (start, end))
    return len(range(start, end, step))
