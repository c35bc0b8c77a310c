"""Powers: TVM wants two equal float types, ONNX any two numeric ones and the base's type."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph


def small_power(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Pow(x, 2) -> Mul(x, x); Pow(x, 3) -> Mul(Mul(x, x), x); Pow(x, 1) -> Identity(x)"""
    if node.op_type != "Pow" or (exponent := graph.constant(node, 1)) is None:
        return None
    shape = graph.static_shape(node.input[0])
    if exponent.size != 1 or exponent.item() not in (1, 2, 3) or shape is None:
        return None
    if exponent.ndim > len(shape):
        return None
    build, x, y = Builder(graph, node), node.input[0], node.output[0]
    match exponent.item():
        case 1:
            build("Identity", x, out=y)
        case 2:
            build("Mul", x, x, out=y)
        case 3:
            build("Mul", build("Mul", x, x), x, out=y)
    return build.nodes


def mixed_power(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Pow(i, e) -> Cast(Pow(Cast(i, f64), Cast(e, f64))); Pow(x, i) -> Pow(x, Cast(i))"""
    if node.op_type != "Pow":
        return None
    base, exponent = graph.type_of(node.input[0]), graph.type_of(node.input[1])
    if base is None or exponent is None:
        return None
    integer = base.dtype.kind in "iu"
    if base.dtype == exponent.dtype and not integer:
        return None
    build, (x, e) = Builder(graph, node), node.input
    if not integer:
        build("Pow", x, build.cast(e, base.dtype), out=node.output[0])
        return build.nodes
    f64 = np.dtype(np.float64)
    power = build("Pow", build.cast(x, f64), build.cast(e, f64))
    build.cast(power, base.dtype, out=node.output[0])
    return build.nodes
