"""Nodes of a body as nodes of the graph: every value of it under a fresh name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import numpy_helper

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.graph import DEFAULT_DOMAINS, Graph, constant_value

MOST_NODES = 100_000  # of bodies, in all: each takes about a millisecond


def instance(
    graph: Graph, body: onnx.GraphProto, inputs: Sequence[str]
) -> tuple[list[onnx.NodeProto], list[str]]:
    """Return a body's nodes, its inputs being values of the graph, and what its outputs are called.

    What the body stores is stored in the graph.

    Raises: StitchError for another number of inputs, or where bodies become too many nodes.
    """
    if len(body.input) != len(inputs):
        rule = f"it takes {len(body.input)} values and is given {len(inputs)}"
        raise StitchError(f"body {body.name!r}", rule, "export the model again")
    graph.unrolled += len(body.node)
    if graph.unrolled > MOST_NODES:
        rule = f"its loops are more than {MOST_NODES} nodes"
        raise StitchError(f"body {body.name!r}", rule, "export it without loops")
    names = {value.name: name for value, name in zip(body.input, inputs, strict=True)}
    for tensor in body.initializer:
        names[tensor.name] = graph.add_constant(tensor.name, numpy_helper.to_array(tensor))
    nodes = renamed(graph, body.node, names)
    return nodes, [names.get(value.name, value.name) for value in body.output]


def renamed(
    graph: Graph, nodes: Iterable[onnx.NodeProto], names: dict[str, str]
) -> list[onnx.NodeProto]:
    """Return copies of nodes: `names` are of values from outside, and gets those of their results.

    Constants become those of the graph.
    """
    made = []
    for node in nodes:
        if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS:
            array = constant_value(node, numpy_helper.to_array)
            names[node.output[0]] = graph.add_constant(node.output[0], array)
            continue
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
        copy.input[:] = [names.get(name, name) for name in node.input]
        for at, name in enumerate(node.output):
            if name:
                names[name] = copy.output[at] = graph.fresh(name)
        for attribute in copy.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename_body(attribute.g, names)
        made.append(copy)
    return made


def _rename_body(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename what a body within a body reads of the outside: its own names hide others."""
    own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    own |= {name for node in body.node for name in node.output}
    outer = {old: new for old, new in names.items() if old not in own}
    for node in body.node:
        node.input[:] = [outer.get(name, name) for name in node.input]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename_body(attribute.g, outer)
    for value in body.output:
        value.name = outer.get(value.name, value.name)
