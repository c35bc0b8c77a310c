"""Attention of any heads, cached or not, as ONNX defines it from opset 23 on.

Its own function body is not taken: onnx's inliner ends with an assertion where an optional input of
a call has no type.
"""

from __future__ import annotations

import math

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.rewrites.attention.bias import PAST_KEY, Bias, bias_of

_SCORES, _CAPPED, _BIASED, _WEIGHTS = range(4)  # what `qk_matmul_output_mode` asks for


def attention(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Attention(q, k, v) -> Softmax(q @ k.T * scale + bias) @ v"""
    if node.op_type != "Attention" or node.domain:
        return None
    where = f"Attention {node.name or node.output[0]!r}"
    shapes = [graph.static_shape(name) for name in node.input[:3]]
    if any(shape is None for shape in shapes):
        raise StitchError(where, "the shapes of its inputs are unknown", "bind all dimensions")
    build, attrs, dtype = Builder(graph, node), attributes(node), graph.type_of(node.input[0]).dtype
    counts = attrs.get("q_num_heads"), attrs.get("kv_num_heads"), attrs.get("kv_num_heads")
    parts = [
        _heads(build, name, shape, count, where)
        for name, shape, count in zip(node.input[:3], shapes, counts, strict=True)
    ]
    (q, q_shape), (k, k_shape), (v, v_shape) = parts
    past = 0
    if has_input(node, PAST_KEY):
        known = graph.static_shape(node.input[PAST_KEY])
        if known is None or len(known) != 4 or not has_input(node, PAST_KEY + 1):
            rule = "its past keys and values are no two arrays of known shape"
            raise StitchError(where, rule, "export the model again")
        past = known[2]
        k = build("Concat", node.input[PAST_KEY], k, axis=2)
        v = build("Concat", node.input[PAST_KEY + 1], v, axis=2)
    outputs = [*node.output, "", "", "", ""]
    for value, name in ((k, outputs[1]), (v, outputs[2])):
        if name:
            build("Identity", value, out=name)
    batch, heads, queries, size = q_shape
    groups, keys = k_shape[1], k_shape[2] + past
    scale = attrs.get("scale") or 1 / math.sqrt(size)
    q = build("Mul", q, build.constant(scale, dtype))
    if heads != groups:
        # Heads that share keys are another axis: nothing is repeated.
        q = build.reshape(q, [batch, groups, heads // groups, queries, size])
        k = build.reshape(k, [batch, groups, 1, keys, size])
        v = build.reshape(v, [batch, groups, 1, keys, v_shape[3]])
    rank = 4 if heads == groups else 5
    turned = [*range(rank - 2), rank - 1, rank - 2]
    scores = build("MatMul", q, build("Transpose", k, perm=turned))
    scores = build.reshape(scores, [batch, heads, queries, keys])
    kept = {_SCORES: scores}
    if cap := attrs.get("softcap", 0):
        limit = build.constant(cap, dtype)
        scores = build("Mul", build("Tanh", build("Div", scores, limit)), limit)
    kept[_CAPPED] = scores
    bias = bias_of(build, node, queries, keys, past, dtype)
    if bias is not None:
        scores = build("Add", scores, bias.value)
    kept[_BIASED] = scores
    weights = kept[_WEIGHTS] = _weights(build, scores, bias, attrs, dtype)
    if rank == 5:
        weights = build.reshape(weights, [batch, groups, heads // groups, queries, keys])
    made = build("MatMul", weights, v)
    made = build.reshape(made, [batch, heads, queries, v_shape[3]])
    if len(shapes[0]) == 3:
        made = build("Transpose", made, perm=[0, 2, 1, 3])
        build.reshape(made, [batch, queries, heads * v_shape[3]], out=outputs[0])
    else:
        build("Identity", made, out=outputs[0])
    if outputs[3]:
        mode = attrs.get("qk_matmul_output_mode", 0)
        if mode not in kept:
            raise StitchError(where, f"mode {mode} is none of 0 to 3", "export the model again")
        build("Identity", kept[mode], out=outputs[3])
    return build.nodes


def _heads(
    build: Builder, name: str, shape: tuple[int, ...], count: int | None, where: str
) -> tuple[str, list[int]]:
    """Return an operand as (batch, heads, length, size), and that shape."""
    if len(shape) == 4:
        return name, list(shape)
    if not count or shape[-1] % count:
        raise StitchError(where, f"{shape[-1]} are no {count} heads", "export the model again")
    batch, length, whole = shape
    apart = build.reshape(name, [batch, length, count, whole // count])
    made = build("Transpose", apart, perm=[0, 2, 1, 3])
    return made, [batch, count, length, whole // count]


def _weights(build: Builder, scores: str, bias: Bias | None, attrs: dict, dtype: np.dtype) -> str:
    """Return the softmax of scores, 0 for a query that sees no key."""
    if kind := attrs.get("softmax_precision", 0):
        scores = build.cast(scores, onnx.helper.tensor_dtype_to_np_dtype(kind))
    weights = build("Softmax", scores, axis=-1)
    if kind:
        weights = build.cast(weights, dtype)
    if bias is None or not bias.may_hide:
        return weights
    hidden = build.constant(-math.inf, dtype)
    sees_none = build("Equal", build.reduce("Max", bias.value, [-1]), hidden)
    return build("Where", sees_none, build.constant(0, dtype), weights)
