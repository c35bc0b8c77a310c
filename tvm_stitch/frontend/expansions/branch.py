"""If by a known condition: the branch that is taken."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes
from tvm_stitch.frontend.onnx_graph.instance import instance


def known_branch(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: If(true) -> its first branch"""
    condition = graph.constant(node, 0) if node.op_type == "If" and not node.domain else None
    if condition is None:
        return None
    taken = attributes(node)["then_branch" if condition.reshape(-1)[0] else "else_branch"]
    nodes, outputs = instance(graph, taken, [])
    pairs = zip(outputs, node.output, strict=True)
    return nodes + [onnx.helper.make_node("Identity", [made], [name]) for made, name in pairs]
