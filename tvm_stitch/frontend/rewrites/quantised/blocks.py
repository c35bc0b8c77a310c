"""Scales and zero points of blocks along an axis, as one for each element."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.rewrites.quantised.rounding import requantised


def quantised_blocks(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: DequantizeLinear(x, s, z, block_size) -> (x - repeated(z)) * repeated(s)"""
    if node.op_type not in ("DequantizeLinear", "QuantizeLinear") or node.domain:
        return None
    attrs = attributes(node)
    shape = graph.static_shape(node.input[0])
    if not attrs.get("block_size", 0) or shape is None:
        return None
    build = Builder(graph, node)
    scale = build.cast(spread(build, node, 1), np.float32)
    zero = spread(build, node, 2) if has_input(node, 2) else None
    if node.op_type == "QuantizeLinear":
        dtype = graph.type_of(node.output[0]).dtype
        zero = build.constant(0, dtype) if zero is None else zero
        value = build.cast(node.input[0], np.float32)
        requantised(build, value, scale, zero, dtype, node.output[0])
        return build.nodes
    value = build.cast(node.input[0], np.float32)
    if zero is not None:
        value = build("Sub", value, build.cast(zero, np.float32))
    made = build("Mul", value, scale)
    kind = graph.type_of(node.input[1]).dtype
    build.cast(made, kind, out=node.output[0])
    return build.nodes


def spread(build: Builder, node: onnx.NodeProto, position: int) -> str:
    """Return a scale or zero point as it broadcasts: of all, of an axis, or of blocks along it."""
    name, attrs = node.input[position], attributes(node)
    own, shape = (build.graph.static_shape(each) for each in (name, node.input[0]))
    axis = attrs.get("axis", 1) % max(len(shape), 1)
    if size := attrs.get("block_size", 0):
        return _repeated(build, name, axis, size, shape)
    if not own or own == (1,):
        return build.reshape(name, [])
    return build.reshape(name, [-1 if at == axis else 1 for at in range(len(shape))])


def _repeated(build: Builder, name: str, axis: int, size: int, shape: tuple[int, ...]) -> str:
    """Return a value of each block as one of each element: the last block may be shorter."""
    blocks = build.graph.static_shape(name)
    lines = build.reshape(name, [*blocks[: axis + 1], 1, *blocks[axis + 1 :]])
    wide = [*blocks[: axis + 1], size, *blocks[axis + 1 :]]
    spread = build("Expand", lines, build.constant(wide))
    whole = build.reshape(spread, [*blocks[:axis], blocks[axis] * size, *blocks[axis + 1 :]])
    return build.slice(whole, 0, shape[axis], axis)
