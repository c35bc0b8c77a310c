"""One-element constants of element-wise operators as true scalars, which stay literals."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes

ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Where", "Equal", "Less", "Greater",
               "LessOrEqual", "GreaterOrEqual", "And", "Or", "Mod", "PRelu"}  # fmt: skip


def scalar_operand(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Mul(x, c) with c of shape (1,) or (1, 1) -> Mul(x, c) with c of shape ()"""
    if node.op_type not in ELEMENTWISE:
        return None
    made = graph.static_shape(node.output[0])
    arrays = [graph.constants.get(name) for name in node.input]
    small = [array is not None and array.size == 1 for array in arrays]
    ranks = [len(known.shape) for name, one in zip(node.input, small, strict=True)
             if not one and (known := graph.type_of(name)) is not None
             and known.shape is not None]  # fmt: skip
    if made is None or max(ranks, default=-1) < len(made):
        return None
    if not any(one and array.ndim for one, array in zip(small, arrays, strict=True)):
        return None
    inputs = [
        graph.add_constant(name, array.reshape(())) if one and array.ndim else name
        for name, one, array in zip(node.input, small, arrays, strict=True)
    ]
    return [onnx.helper.make_node(node.op_type, inputs, node.output, node.name, **attributes(node))]
