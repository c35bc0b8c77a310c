"""Gemm as MatMul and Add: transposed weights are then folded at import."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input


def gemm(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Gemm(a, b, c, transB=1) -> Add(MatMul(a, Transpose(b)), c)"""
    if node.op_type != "Gemm" or (known := graph.type_of(node.input[0])) is None:
        return None
    attrs, build, y = attributes(node), Builder(graph, node), node.output[0]
    a, b = node.input[:2]
    if attrs.get("transA"):
        a = build("Transpose", a, perm=[1, 0])
    if attrs.get("transB"):
        b = build("Transpose", b, perm=[1, 0])
    beta = attrs.get("beta", 1.0)
    biased = has_input(node, 2) and beta != 0
    alpha = attrs.get("alpha", 1.0)
    product = build("MatMul", a, b, out=None if biased or alpha != 1 else y)
    if alpha != 1:
        factor = build.constant(alpha, known.dtype)
        product = build("Mul", product, factor, out=None if biased else y)
    if biased:
        c = node.input[2]
        c = c if beta == 1 else build("Mul", c, build.constant(beta, known.dtype))
        build("Add", product, c, out=y)
    return build.nodes
