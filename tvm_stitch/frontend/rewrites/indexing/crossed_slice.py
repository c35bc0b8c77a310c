"""Slices whose ends cross, or that walk back from before the first element: TVM miscounts them."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, has_input

Along = tuple[int, int, int]  # where a slice begins and ends along an axis, and its step
_NOTHING = (0, 0, 1)


def crossed_slice(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Slice(x, start=5, end=2) -> Slice(x, start=0, end=0)

    rewrite: Slice(x, start=-9, end=-9, step=-1) -> Slice(x, start=0, end=-9, step=-1)
    """
    if node.op_type != "Slice" or graph.opset < 10:
        return None
    shape = graph.static_shape(node.input[0])
    given = [
        graph.numbers(node, place) if has_input(node, place) else None for place in (1, 2, 3, 4)
    ]
    if shape is None or given[0] is None or given[1] is None:
        return None
    starts, ends = (each.tolist() for each in given[:2])
    axes = list(range(len(starts))) if given[2] is None else given[2].tolist()
    steps = [1] * len(starts) if given[3] is None else given[3].tolist()
    asked = list(zip(starts, ends, steps, strict=True))
    made = [_plain(shape[axis], along) for axis, along in zip(axes, asked, strict=True)]
    if made == asked:
        return None
    build = Builder(graph, node)
    lists = [*map(list, zip(*made, strict=True))]
    lists.insert(2, axes)
    constants = (build.constant(np.array(each, np.int64)) for each in lists)
    build("Slice", node.input[0], *constants, out=node.output[0])
    return build.nodes


def _plain(extent: int, along: Along) -> Along:
    """Return the same slice of an axis as TVM counts it right.

    What walks back from a place before the first element begins there (ONNX's Slice: of negative
    steps starts are clamped to the first).
    """
    start, end, step = along
    if step < 0 < extent and start + extent < 0:
        start = 0
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    places = (at + extent if at < 0 else at for at in (start, end))
    first, last = (min(max(at, low), high) for at in places)
    return (start, end, step) if range(first, last, step) else _NOTHING
