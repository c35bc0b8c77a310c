"""ReverseSequence: the first elements of each sequence in the other order, as indices."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def reverse_sequence(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: ReverseSequence(x, n) -> GatherElements(x, Where(t < n, n - 1 - t, t))"""
    shape = graph.static_shape(node.input[0]) if node.op_type == "ReverseSequence" else None
    if shape is None or node.domain:
        return None
    attrs, build = attributes(node), Builder(graph, node)
    batch, time = attrs.get("batch_axis", 1), attrs.get("time_axis", 0)
    if {batch, time} != {0, 1} or len(shape) < 2:
        return None
    lengths = build.reshape(node.input[1], _along(len(shape), batch, shape[batch]))
    places = np.arange(shape[time]).reshape(_along(len(shape), time, shape[time]))
    turned = build("Sub", lengths, build.constant(places + 1))
    inside = build("Less", build.constant(places), lengths)
    index = build("Where", inside, turned, build.constant(places))
    index = build("Expand", index, build.constant(list(shape)))
    build("GatherElements", node.input[0], index, out=node.output[0], axis=time)
    return build.nodes


def _along(rank: int, axis: int, extent: int) -> list[int]:
    return [extent if at == axis else 1 for at in range(rank)]
