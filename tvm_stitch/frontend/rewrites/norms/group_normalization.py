"""GroupNormalization of opsets 18 to 20 (one scale a group), which the checker refuses."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes


def replace_deprecated(graph: Graph) -> None:
    """rewrite: GroupNormalization-18(x) -> Reshape(InstanceNormalization(Reshape(x, (N, G, -1))))

    It needs no types and so runs before the checker.
    """
    if 18 <= graph.opset < 21:
        graph.nodes = [new for node in graph.nodes for new in _replaced(graph, node)]


def _replaced(graph: Graph, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    if node.op_type != "GroupNormalization" or node.domain:
        return [node]
    attrs, build = attributes(node), Builder(graph, node)
    groups, epsilon = attrs.get("num_groups"), attrs.get("epsilon", 1e-5)
    # What is broken is left to the checker, which has not seen it yet.
    if len(node.input) != 3 or not isinstance(groups, int) or not isinstance(epsilon, float):
        return [node]
    grouped = build.reshape(node.input[0], [0, groups, -1])
    y = build("InstanceNormalization", grouped, *node.input[1:], epsilon=epsilon)
    build("Reshape", y, build("Shape", node.input[0]), out=node.output[0])
    return build.nodes
