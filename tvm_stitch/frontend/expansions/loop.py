"""Loops whose count is known and that nothing ends before: one kernel, or body behind body."""

from __future__ import annotations

import numpy as np
import onnx

from relay_passes.policy import POLICY
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.expansions.rolled import Scanned, rolled
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input
from tvm_stitch.frontend.onnx_graph.instance import instance


def unrolled_loop(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Loop(3, true, x) -> body(body(body(x)))"""
    if node.op_type != "Loop" or node.domain:
        return None
    where = f"Loop {node.name or node.output[0]!r}"
    body, count = attributes(node)["body"], _count(graph, node, where)
    refuse_interface(body, len(node.input), 1 + len(node.input[2:]), where)
    _refuse_early_end(body, where)
    build = Builder(graph, node)
    if (one := _rolled(graph, build, body, count)) is not None:
        return one
    if count > POLICY.loops.written:
        rule = f"its {count} steps are more than {POLICY.loops.written}"
        raise StitchError(where, rule, "export without loops")
    state, made = list(node.input[2:]), []
    lines: list[list[str]] = [[] for _ in body.output[1 + len(state) :]]
    for step in range(count):
        condition = build.constant(True, np.bool_)
        nodes, outputs = instance(graph, body, [build.constant(step), condition, *state])
        made += nodes
        state = outputs[1 : 1 + len(state)]
        for line, value in zip(lines, outputs[1 + len(state) :], strict=True):
            line.append(value)
    for line, value in zip(lines, body.output[1 + len(state) :], strict=True):
        state.append(stacked(build, line, value))
    for value, name in zip(state, node.output, strict=False):
        if name:
            build("Identity", value, out=name)
    return made + build.nodes


def _rolled(graph: Graph, build: Builder, body: onnx.GraphProto, count: int) -> list | None:
    """Return the nodes of one loop; a step's number is a part of all numbers."""
    node = build.replaced
    states = list(node.input[2:])
    stacks = len(body.output) - 1 - len(states)
    number, condition, *rest = body.input
    turned = onnx.GraphProto()
    turned.CopyFrom(body)
    del turned.input[:]
    turned.input.extend([condition, *rest, number])
    numbers = Scanned(build.constant(np.arange(count)))
    true = build.constant(True, np.bool_)
    backwards = [False] * stacks
    one = rolled(graph, node, turned, [true], states, [numbers], count, backwards)
    if one is None:
        return None
    for value, name in zip((*one.states, *one.stacks), node.output, strict=False):
        if name:
            build("Identity", value, out=name)
    return one.nodes + build.nodes


def stacked(build: Builder, lines: list[str], value: onnx.ValueInfoProto) -> str:
    """Return what steps leave as one value, a step a line."""
    if not lines:
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        extents = [dim.dim_value for dim in kind.shape.dim]
        return build.constant(np.empty((0, *extents)), dtype)
    wide = [build.unsqueeze(line, 0) for line in lines]
    return wide[0] if len(wide) == 1 else build("Concat", *wide, axis=0)


def _count(graph: Graph, node: onnx.NodeProto, where: str) -> int:
    count, condition = graph.numbers(node, 0), graph.numbers(node, 1)
    if has_input(node, 1) and condition is None:
        raise StitchError(where, "data decides whether it begins", "export without it")
    if condition is not None and not condition[0]:
        return 0
    if count is None:
        raise StitchError(where, "it is not known how often it runs", "bind that by values=")
    return max(int(count[0]), 0)


def refuse_interface(body: onnx.GraphProto, inputs: int, outputs: int, where: str) -> None:
    """Raise StitchError unless a body takes so many values and makes at least so many."""
    if len(body.input) != inputs or len(body.output) < outputs:
        rule = f"its body takes {len(body.input)} and makes {len(body.output)} values"
        raise StitchError(where, rule, f"it should take {inputs}, and make {outputs} or more")


def _refuse_early_end(body: onnx.GraphProto, where: str) -> None:
    """Raise StitchError unless a body's condition stays as it is, or is a constant."""
    kept = {body.input[1].name}
    true = set()
    for tensor in body.initializer:
        if onnx.numpy_helper.to_array(tensor).all():
            true.add(tensor.name)
    for each in body.node:
        if each.op_type == "Identity" and each.input[0] in kept:
            kept.add(each.output[0])
        if each.op_type == "Constant":
            value = attributes(each).get("value")
            if value is not None and onnx.numpy_helper.to_array(value).all():
                true.add(each.output[0])
    if body.output[0].name not in kept | true:
        raise StitchError(where, "data decides when it ends", "export a loop of known count")
