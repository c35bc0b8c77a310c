"""Bodies that are run for each step as loops over a step, written once between markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_stitch.frontend.expansions.steps import STEPS
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, ValueType
from tvm_stitch.frontend.onnx_graph.infer import type_proto, value_type
from tvm_stitch.frontend.onnx_graph.instance import instance
from tvm_stitch.frontend.onnx_graph.steps import StepBuilder

_SHOWN = 1024  # elements of constants that inference is shown


@dataclass(frozen=True)
class Scanned:
    """A value that steps have a part of each, along an axis, or the last part first."""

    name: str
    axis: int = 0
    backwards: bool = False


@dataclass(frozen=True)
class Rolled:
    """The nodes of a loop, its last states, and what its steps leave, along a new first axis."""

    nodes: list[onnx.NodeProto]
    states: list[str]
    stacks: list[str]


def rolled(
    graph: Graph,
    node: onnx.NodeProto,
    body: onnx.GraphProto,
    given: Sequence[str],
    states: Sequence[str],
    scanned: Sequence[Scanned],
    steps: int,
    backwards: Sequence[bool],
) -> Rolled | None:
    """Return a body as one loop; None if what it makes is not of known and lasting shape.

    The body takes what is `given` to every step, then states, then parts of what is scanned. The
    last it makes are states and what is stacked, some of that `backwards`.
    """
    if steps < STEPS.rolled or any(map(_holds, body.node)):
        return None
    kinds = [graph.type_of(name) for name in (*states, *(s.name for s in scanned), *given)]
    if any(kind is None or not kind.static for kind in kinds):
        return None
    build = Builder(graph, node)
    loop = StepBuilder(build, steps)
    parts = [loop.each(_time_first(build, each), each.backwards) for each in scanned]
    carries = [loop.carry(name) for name in states]
    made = _made(graph, body, [*given, *carries, *parts])
    skipped = len(body.output) - len(states) - len(backwards)
    if made is None or [graph.type_of(s) for s in states] != made[skipped:][: len(states)]:
        return None
    nodes, outputs = instance(graph, body, [*given, *carries, *parts])
    pairs = list(zip(outputs, made, strict=True))[skipped:]
    ends, count = Builder(graph, node), len(states)
    ended = loop.behind(ends).end(pairs[:count], pairs[count:], backwards)
    return Rolled([*build.nodes, *nodes, *ends.nodes], ended[:count], ended[count:])


def _holds(node: onnx.NodeProto) -> bool:
    return any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)


def _time_first(build: Builder, scanned: Scanned) -> str:
    if scanned.axis == 0:
        return scanned.name
    known = build.graph.type_of(scanned.name)
    order = [scanned.axis, *(a for a in range(len(known.shape)) if a != scanned.axis)]
    turned = build("Transpose", scanned.name, perm=order)
    shape = tuple(known.shape[axis] for axis in order)
    build.graph.types[turned] = ValueType(known.dtype, shape)
    return turned


def _made(graph: Graph, body: onnx.GraphProto, inputs: Sequence[str]) -> list[ValueType] | None:
    """Return the types of a body's outputs by ONNX's inference, None if it does not know one."""
    proto = onnx.GraphProto()
    proto.CopyFrom(body)
    own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    own |= {name for each in body.node for name in each.output}
    read = dict.fromkeys(name for each in body.node for name in each.input if name)
    for value, name in zip(proto.input, inputs, strict=True):
        _show(graph, proto, value.name, name, value)
    for name in read:
        if name not in own:
            if graph.type_of(name) is None:
                return None
            _show(graph, proto, name, name, proto.input.add())
    for value in proto.output:
        value.ClearField("type")
    del proto.value_info[:]
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in graph.opsets.items()]
    model = onnx.helper.make_model(proto, opset_imports=opsets)
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except onnx.shape_inference.InferenceError:
        return None
    known = {v.name: v.type for v in (*inferred.value_info, *inferred.output, *inferred.input)}
    types = [value_type(known[v.name]) if v.name in known else None for v in body.output]
    return types if all(t is not None and t.static for t in types) else None


def _show(
    graph: Graph, proto: onnx.GraphProto, own: str, name: str, value: onnx.ValueInfoProto
) -> None:
    """Tell inference of a value of the graph: its type, and small constants whole."""
    value.name = own
    value.type.CopyFrom(type_proto(graph.type_of(name)))
    array = graph.constants.get(name)
    if array is not None and array.size <= _SHOWN:
        proto.initializer.append(numpy_helper.from_array(np.array(array, order="C"), own))
