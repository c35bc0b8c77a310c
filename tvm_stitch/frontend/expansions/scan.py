"""Scans: loops, or one body behind the other, a step of each scanned input at a time."""

from __future__ import annotations

import onnx

from relay_passes.policy import POLICY
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.expansions.loop import refuse_interface
from tvm_stitch.frontend.expansions.rolled import Rolled, Scanned, rolled
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes
from tvm_stitch.frontend.onnx_graph.instance import instance


def unrolled_scan(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: Scan(s, x) -> s, y[0] = body(s, x[0]); s, y[1] = body(s, x[1]) ..."""
    if node.op_type != "Scan" or node.domain:
        return None
    where = f"Scan {node.name or node.output[0]!r}"
    if graph.opset < 9:
        raise StitchError(where, "it is one of opset 8", "convert it with onnx.version_converter")
    attrs, build = attributes(node), Builder(graph, node)
    body, count = attrs["body"], attrs["num_scan_inputs"]
    states = len(node.input) - count
    if not 0 < count <= len(node.input):
        rule = f"it scans {count} of {len(node.input)} inputs"
        raise StitchError(where, rule, "export the model again")
    refuse_interface(body, len(node.input), states, where)
    scanned = list(node.input[states:])
    shapes = [graph.static_shape(name) for name in scanned]
    if any(shape is None for shape in shapes):
        raise StitchError(where, "the shapes of its inputs are unknown", "bind all dimensions")
    axes = [a % len(s) for a, s in zip(attrs.get("scan_input_axes", [0] * count), shapes,
                                       strict=True)]  # fmt: skip
    turned = attrs.get("scan_input_directions", [0] * count)
    steps = shapes[0][axes[0]]  # and of all: ONNX's inference refuses others
    scans = [Scanned(*each) for each in zip(scanned, axes, map(bool, turned), strict=True)]
    lines_turned = [bool(back) for back in attrs.get("scan_output_directions", [])]
    count_lines = len(body.output) - states
    lines_turned = [*lines_turned, *[False] * count_lines][:count_lines]
    one = rolled(graph, node, body, [], node.input[:states], scans, steps, lines_turned)
    if one is not None:
        return one.nodes + _put_stacks(build, node, attrs, one)
    if steps > POLICY.loops.written:
        rule = f"its {steps} steps are more than {POLICY.loops.written}"
        raise StitchError(where, rule, "export without loops")
    state, made, lines = list(node.input[:states]), [], [[] for _ in body.output[states:]]
    for step in range(steps):
        slices = Builder(graph, node)
        parts = [
            slices("Gather", name, slices.constant(steps - 1 - step if back else step), axis=axis)
            for name, axis, back in zip(scanned, axes, turned, strict=True)
        ]
        nodes, outputs = instance(graph, body, [*state, *parts])
        made += [*slices.nodes, *nodes]
        state = outputs[:states]
        for line, value in zip(lines, outputs[states:], strict=True):
            line.append(value)
    _put(build, node, attrs, state, lines)
    return made + build.nodes


def _put_stacks(build: Builder, node: onnx.NodeProto, attrs: dict, one: Rolled) -> list:
    """Make the node's results of a loop's; stacks are turned to their axes."""
    states = len(one.states)
    axes = attrs.get("scan_output_axes", [0] * len(one.stacks))
    for value, name in zip(one.states, node.output, strict=False):
        if name:
            build("Identity", value, out=name)
    for value, name, axis in zip(one.stacks, node.output[states:], axes, strict=False):
        rank = len(build.graph.type_of(value).shape)
        order = list(range(1, rank))
        order.insert(axis % rank, 0)
        if name:
            build("Transpose", value, perm=order, out=name)
    return build.nodes


def _put(
    build: Builder, node: onnx.NodeProto, attrs: dict, state: list[str], lines: list[list[str]]
) -> None:
    states = len(state)
    for value, name in zip(state, node.output, strict=False):
        if name:
            build("Identity", value, out=name)
    axes = attrs.get("scan_output_axes", [0] * len(lines))
    turned = attrs.get("scan_output_directions", [0] * len(lines))
    for line, name, axis, back in zip(lines, node.output[states:], axes, turned, strict=False):
        if name:
            order = line[::-1] if back else line
            wide = [build.unsqueeze(each, axis) for each in order]
            build("Concat", *wide, out=name, axis=axis)
