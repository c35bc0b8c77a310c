"""Padding that ONNX derives from shapes: TVM's importer gets some of it wrong or ignores it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes

WINDOWED = ("Conv", "MaxPool", "AveragePool", "LpPool")


def explicit_pads(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: MaxPool(x, auto_pad=SAME_UPPER) -> MaxPool(x, pads=[...])

    ConvTranspose's output_shape becomes pads and output_padding too.
    """
    if node.op_type not in (*WINDOWED, "ConvTranspose"):
        return None
    attrs, shape = attributes(node), graph.static_shape(node.input[0])
    mode = attrs.pop("auto_pad", b"NOTSET").decode()
    wanted = attrs.pop("output_shape", None)
    if shape is None or (mode == "NOTSET" and wanted is None):
        return None
    kernel = attrs.get("kernel_shape") or graph.static_shape(node.input[1])[2:]
    extents, rank = shape[2:], len(shape) - 2
    strides = attrs.get("strides", [1] * rank)
    dilations = attrs.get("dilations", [1] * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if node.op_type == "ConvTranspose":
        if wanted is None and mode != "VALID":
            wanted = [n * s for n, s in zip(extents, strides, strict=True)]
        totals = _transposed(attrs, extents, strides, spans, wanted)
    else:
        totals = [max((-(-n // s) - 1) * s + span - n, 0)
                  for n, s, span in zip(extents, strides, spans, strict=True)]  # fmt: skip
        if mode == "VALID":
            totals = [0] * rank
    upper = mode == "SAME_UPPER"
    begin = [total // 2 if upper else total - total // 2 for total in totals]
    end = [total - b for total, b in zip(totals, begin, strict=True)]
    attrs["pads"] = [*begin, *end]
    return [onnx.helper.make_node(node.op_type, node.input, node.output, node.name, **attrs)]


def _transposed(
    attrs: dict,
    extents: Sequence[int],
    strides: Sequence[int],
    spans: Sequence[int],
    wanted: Sequence[int] | None,
) -> list[int]:
    """Return total padding per axis; where it would be negative, output_padding grows instead."""
    if wanted is None:
        return [0] * len(extents)
    extra = list(attrs.get("output_padding", [0] * len(extents)))
    totals = []
    for axis, target in enumerate(wanted[-len(extents) :]):
        full = strides[axis] * (extents[axis] - 1) + extra[axis] + spans[axis]
        extra[axis] += max(target - full, 0)
        totals.append(max(full - target, 0))
    attrs["output_padding"] = extra
    return totals
