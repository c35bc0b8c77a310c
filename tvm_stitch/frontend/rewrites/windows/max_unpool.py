"""MaxUnpool into a larger shape than its windows have: the rest behind them is zero."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def max_unpool(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: MaxUnpool(x, i, shape) -> Pad(MaxUnpool(x, i), shape - its shape at each end)"""
    if node.op_type != "MaxUnpool" or node.domain:
        return None
    shape, wanted = graph.static_shape(node.input[0]), graph.numbers(node, 2)
    if wanted is None or shape is None or len(wanted) != len(shape):
        return None
    attrs, build = attributes(node), Builder(graph, node)
    kernel = attrs["kernel_shape"]
    strides, pads = (
        attrs.get("strides", [1] * len(kernel)),
        attrs.get("pads", [0] * 2 * len(kernel)),
    )
    ends = [a + b for a, b in zip(pads[: len(kernel)], pads[len(kernel) :], strict=True)]
    lines = zip(shape[2:], kernel, strides, ends, strict=True)
    made = [*shape[:2], *((extent - 1) * step + k - cut for extent, k, step, cut in lines)]
    behind = [int(n) - m for n, m in zip(wanted, made, strict=True)]
    if min(behind) < 0:
        return None
    unpooled = build("MaxUnpool", *node.input[:2], **attrs)
    dtype = graph.type_of(node.input[0]).dtype
    widths = build.constant([0] * len(shape) + behind)
    zero = build.constant(0, dtype)
    build("Pad", unpooled, widths, zero, out=node.output[0], mode="constant")
    return build.nodes
