"""Products of quantised operands: of integers, less their zero points, summed up in 32 bits."""

from __future__ import annotations

import math

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.rewrites.quantised.rounding import requantised

_MOST = 255  # of a byte less its zero point
QUANTISED_PRODUCTS = ("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul")


def quantised_product(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: MatMulInteger(a, b, za, zb) -> MatMul(int32(a) - za, int32(b) - zb)
    QLinearMatMul(a, sa, za, b, sb, zb, sy, zy) -> saturated(round(product * sa * sb / sy) + zy)"""
    if node.op_type not in QUANTISED_PRODUCTS or node.domain:
        return None
    if any(graph.static_shape(name) is None for name in node.input if name):
        return None
    build, conv = Builder(graph, node), "Conv" in node.op_type
    if node.op_type.startswith("QLinear"):
        left = _centred(build, node, 0, 2, conv, rows=True)
        right = _centred(build, node, 3, 5, conv)
    else:
        left = _centred(build, node, 0, 2, conv, rows=True)
        right = _centred(build, node, 1, 3, conv)
    product = _convolution(build, node, left, right) if conv else build("MatMul", left, right)
    if not node.op_type.startswith("QLinear"):
        build("Identity", product, out=node.output[0])
        return build.nodes
    rank = len(graph.static_shape(node.input[0]))
    if conv and has_input(node, 8):
        bias = build.reshape(node.input[8], [1, -1, *[1] * (rank - 2)])
        product = build("Add", product, bias)
    scale = build("Mul", _scale(build, node, 1, conv, rows=True), _scale(build, node, 4, conv))
    total = build("Mul", build.cast(product, np.float32), scale)
    step = build.cast(node.input[6], np.float32)
    dtype = graph.type_of(node.input[7]).dtype
    requantised(build, total, step, node.input[7], dtype, node.output[0])
    return build.nodes


def _convolution(build: Builder, node: onnx.NodeProto, left: str, right: str) -> str:
    """Return a convolution of integers, of which ONNX has none: floats that hold each sum."""
    weight = build.graph.static_shape(node.input[3 if node.op_type == "QLinearConv" else 1])
    terms = math.prod(weight[1:])
    dtype = np.float32 if terms * _MOST * _MOST < 1 << 24 else np.float64
    operands = (build.cast(operand, dtype) for operand in (left, right))
    return build.cast(build("Conv", *operands, **attributes(node)), np.int32)


def _centred(
    build: Builder, node: onnx.NodeProto, value: int, zero: int, conv: bool, rows: bool = False
) -> str:
    """Return an operand in 32 bits less its zero point, a number or one a row, column or filter."""
    whole = build.cast(node.input[value], np.int32)
    if not has_input(node, zero):
        return whole
    point = build.cast(node.input[zero], np.int32)
    rank = len(build.graph.static_shape(node.input[value]))
    return build("Sub", whole, _placed(build, node.input[zero], point, rank, conv, rows))


def _scale(
    build: Builder, node: onnx.NodeProto, position: int, conv: bool, rows: bool = False
) -> str:
    """Return a scale as it is multiplied with a product's result."""
    name = node.input[position]
    scale, rank = build.cast(name, np.float32), len(build.graph.static_shape(node.input[0]))
    shape = build.graph.static_shape(name)
    if conv and not rows and shape and shape[0] > 1:
        return build.reshape(scale, [1, -1, *[1] * (rank - 2)])
    return _placed(build, name, scale, rank, conv, rows)


def _placed(build: Builder, name: str, value: str, rank: int, conv: bool, rows: bool) -> str:
    """Return what is one number a row, column or filter in the shape that it applies to."""
    shape = build.graph.static_shape(name)
    if not shape or shape == (1,):
        return build.reshape(value, [])
    if len(shape) > 1:
        return value
    if conv:
        return build.reshape(value, [-1, *[1] * (rank - 1)])
    return build.reshape(value, [-1, 1] if rows else [1, -1])
