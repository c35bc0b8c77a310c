"""MaxPool that tells where its elements come from: of each window the first that is largest."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes
from tvm_stitch.frontend.onnx_graph.limits import MOST_TABLE


def pool_indices(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: y, i = MaxPool(x) -> w = x[windows]; y = ReduceMax(w); i = windows[ArgMax(w)]"""
    if node.op_type != "MaxPool" or node.domain or len(node.output) < 2 or not node.output[1]:
        return None
    shape, made = graph.static_shape(node.input[0]), graph.static_shape(node.output[0])
    if shape is None or made is None:
        return None
    attrs, build = attributes(node), Builder(graph, node)
    extents, outs, kernel = shape[2:], made[2:], attrs["kernel_shape"]
    if math.prod(kernel) * math.prod(outs) > MOST_TABLE:
        return None
    places = _windows(attrs, extents, outs, kernel)
    inside = (places >= 0).all(-1)
    flat = np.where(inside, _flat(places, extents, False), 0)
    table = (
        flat
        if not attrs.get("storage_order", 0)
        else np.where(inside, _flat(places, extents, True), 0)
    )
    count, size = math.prod(outs), math.prod(kernel)
    dtype, images = graph.type_of(node.input[0]).dtype, math.prod(shape[:2])
    lines = build.reshape(node.input[0], [images, math.prod(extents)])
    window = build("Gather", lines, build.constant(flat.reshape(-1)), axis=1)
    window = build.reshape(window, [images, count, size])
    least = np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf
    hidden = build.constant(inside.reshape(1, count, size), np.bool_)
    window = build("Where", hidden, window, build.constant(least, dtype))
    best = build("ArgMax", window, axis=2, keepdims=1)
    build.reshape(build.reduce("Max", window, [2], 0), list(made), out=node.output[0])
    steps = np.arange(count).reshape(1, count, 1) * size
    at = build("Add", best, build.constant(steps))
    found = build("Gather", build.constant(table.reshape(-1)), at, axis=0)
    first = np.arange(images).reshape(images, 1, 1) * math.prod(extents)
    build.reshape(build("Add", found, build.constant(first)), list(made), out=node.output[1])
    return build.nodes


def _windows(attrs: dict, extents, outs, kernel) -> np.ndarray:
    """Return the places of each window's elements, (*outs, *kernel, rank); -1 in the padding."""
    rank = len(extents)
    strides, dilations = (attrs.get(n, [1] * rank) for n in ("strides", "dilations"))
    pads = attrs.get("pads", [0] * 2 * rank)
    if attrs.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = _same(attrs, extents, outs, kernel, strides, dilations)
    lines = []
    for axis in range(rank):
        at = np.arange(outs[axis])[:, None] * strides[axis] - pads[axis]
        at = at + np.arange(kernel[axis])[None] * dilations[axis]
        at = np.where((at >= 0) & (at < extents[axis]), at, -1)
        form = [1] * 2 * rank
        form[axis], form[rank + axis] = at.shape
        lines.append(at.reshape(form))
    return np.stack(np.broadcast_arrays(*lines), -1)


def _same(attrs: dict, extents, outs, kernel, strides, dilations) -> list[int]:
    """Return the padding before each axis that leaves as many windows as there are steps."""
    found = []
    for extent, out, size, step, apart in zip(
        extents, outs, kernel, strides, dilations, strict=True
    ):
        whole = max((out - 1) * step + (size - 1) * apart + 1 - extent, 0)
        found.append(whole // 2 if attrs["auto_pad"] == b"SAME_UPPER" else whole - whole // 2)
    return found


def _flat(places: np.ndarray, extents, by_columns: bool) -> np.ndarray:
    """Return the number of each place in its image, along rows or along columns."""
    order = range(len(extents)) if not by_columns else reversed(range(len(extents)))
    number = np.zeros(places.shape[:-1], np.int64)
    for axis in order:
        number = number * extents[axis] + places[..., axis]
    return number
