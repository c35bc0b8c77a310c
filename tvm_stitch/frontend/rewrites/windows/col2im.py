"""Col2Im: columns added up where they came from, as a transposed convolution by ones."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes

_MOST_TAPS = 4096  # of a block: the weight is a square of them


def col2im(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Col2Im(x) -> ConvTranspose(Reshape(x), eye)"""
    if node.op_type != "Col2Im" or node.domain:
        return None
    shape, image, block = (
        graph.static_shape(node.input[0]),
        *(graph.constant(node, at) for at in (1, 2)),
    )
    if shape is None or image is None or block is None:
        return None
    attrs, build = attributes(node), Builder(graph, node)
    block, rank, dtype = block.tolist(), len(image), graph.type_of(node.input[0]).dtype
    strides = attrs.get("strides", [1] * rank)
    dilations = attrs.get("dilations", [1] * rank)
    pads = attrs.get("pads", [0] * 2 * rank)
    counts = [len(each) for each in (block, strides, dilations)]
    if len(shape) != 3 or counts != [rank] * 3 or len(pads) != 2 * rank:
        return None
    spans = [(size - 1) * step + 1 for size, step in zip(block, dilations, strict=True)]
    padded = [e + a + b for e, a, b in zip(image, pads[:rank], pads[rank:], strict=True)]
    count = [(e - s) // t + 1 for e, s, t in zip(padded, spans, strides, strict=True)]
    over = [(e - s) % t for e, s, t in zip(padded, spans, strides, strict=True)]
    if (taps := math.prod(block)) > _MOST_TAPS:
        return None
    channels = shape[1] // taps
    x = build.reshape(node.input[0], [shape[0] * channels, taps, *count])
    weight = build.constant(np.eye(taps).reshape(taps, 1, *block), dtype)
    options = {"strides": strides, "dilations": dilations, "pads": pads, "output_padding": over}
    whole = build("ConvTranspose", x, weight, **options)
    build.reshape(whole, [shape[0], channels, *image.tolist()], out=node.output[0])
    return build.nodes
