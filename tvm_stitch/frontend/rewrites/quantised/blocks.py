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
    if not (size := attrs.get("block_size", 0)) or shape is None:
        return None
    build, axis = Builder(graph, node), attrs.get("axis", 1) % len(shape)
    scale = build.cast(_repeated(build, node.input[1], axis, size, shape), np.float32)
    zero = _repeated(build, node.input[2], axis, size, shape) if has_input(node, 2) else None
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


def _repeated(build: Builder, name: str, axis: int, size: int, shape: tuple[int, ...]) -> str:
    """Return a value of each block as one of each element: the last block may be shorter."""
    blocks = build.graph.static_shape(name)
    lines = build.reshape(name, [*blocks[: axis + 1], 1, *blocks[axis + 1 :]])
    wide = [*blocks[: axis + 1], size, *blocks[axis + 1 :]]
    spread = build("Expand", lines, build.constant(wide))
    whole = build.reshape(spread, [*blocks[:axis], blocks[axis] * size, *blocks[axis + 1 :]])
    ends = (build.constant([0]), build.constant([shape[axis]]), build.constant([axis]))
    return build("Slice", whole, *ends)
