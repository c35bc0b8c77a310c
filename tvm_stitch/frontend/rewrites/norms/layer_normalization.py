"""LayerNormalization with statistics as outputs, or a scale that broadcasts."""

from __future__ import annotations

import numpy as np
import onnx

from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input


def layer_normalization(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Y, Mean, InvStdDev = LayerNormalization(x, scale, bias) -> its definition

    Without use of Mean and InvStdDev and with scale and bias of the normalised shape it stays one
    operator; unused outputs are dropped.
    """
    if node.op_type != "LayerNormalization" or node.domain:
        return None
    shape = graph.static_shape(node.input[0])
    if shape is None:
        return None
    attrs, uses = attributes(node), graph.uses()
    axis = attrs.get("axis", -1) % len(shape)
    used = [name for name in node.output[1:] if uses[name]]
    parameters = [graph.static_shape(name) for name in node.input[1:]]
    if not used and all(known == shape[axis:] for known in parameters):
        if len(node.output) == 1:
            return None
        build = Builder(graph, node)
        build("LayerNormalization", *node.input, out=node.output[0], **attrs)
        return build.nodes
    return _decomposed(graph, node, axis, len(shape))


def _decomposed(graph: Graph, node: onnx.NodeProto, axis: int, rank: int) -> list:
    attrs, build = attributes(node), Builder(graph, node)
    stored = graph.type_of(node.input[0]).dtype
    computed = stored if stored == np.float64 else np.dtype(np.float32)
    axes = list(range(axis, rank))
    x = node.input[0] if stored == computed else build.cast(node.input[0], computed)
    y, mean, inverse = build.normalised(x, axes, attrs.get("epsilon", 1e-5), computed)
    if stored != computed:
        y = build.cast(y, stored)
    if has_input(node, 2):
        y = build("Mul", y, node.input[1])
        build("Add", y, node.input[2], out=node.output[0])
    else:
        build("Mul", y, node.input[1], out=node.output[0])
    for name, value in zip(node.output[1:], (mean, inverse), strict=False):
        if name:
            build("Identity", value, out=name)
    return build.nodes
