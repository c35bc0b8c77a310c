"""Concat of many inputs, which TVM writes as choices within choices: a tree of smaller ones."""

from __future__ import annotations

import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes

_MOST = 32  # inputs: each is a level of an expression that is walked recursively


def wide_concat(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Concat(x0, x1, ...) -> Concat(Concat(x0, ..., x31), Concat(x32, ...), ...)"""
    if node.op_type != "Concat" or node.domain or len(node.input) <= _MOST:
        return None
    build, axis, names = Builder(graph, node), attributes(node)["axis"], list(node.input)
    while len(names) > _MOST:
        groups = [names[at : at + _MOST] for at in range(0, len(names), _MOST)]
        names = [g[0] if len(g) == 1 else build("Concat", *g, axis=axis) for g in groups]
    build("Concat", *names, out=node.output[0], axis=axis)
    return build.nodes
