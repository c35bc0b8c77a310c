"""If by a known condition: the branch that is taken."""

from __future__ import annotations

import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes
from tvm_stitch.frontend.onnx_graph.instance import instance


def known_branch(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: If(true) -> its first branch"""
    condition = graph.constant(node, 0) if node.op_type == "If" and not node.domain else None
    if condition is None:
        return None
    taken = attributes(node)["then_branch" if condition.reshape(-1)[0] else "else_branch"]
    nodes, outputs = instance(graph, taken, [])
    if len(outputs) < len(node.output):
        rule = f"its branch has {len(outputs)} results of {len(node.output)}"
        raise StitchError(f"If {node.name or node.output[0]!r}", rule, "export the model again")
    pairs = zip(outputs, node.output, strict=False)
    return nodes + [onnx.helper.make_node("Identity", [made], [name]) for made, name in pairs]
