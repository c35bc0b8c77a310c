"""Segments: which nodes leave, and the one node that each becomes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.importer.known import has_converter, why_not
from tvm_stitch.frontend.onnx_graph.graph import (
    OWN_DOMAIN,
    Graph,
    bodies,
    consumed,
    first_result,
    label,
    value_info,
)
from tvm_stitch.frontend.segments.trial import model_of
from tvm_stitch.runtime.onnx_segment import DIGEST_BYTES, open_session

SEGMENT = "OnnxSegment"


@dataclass(frozen=True)
class Left:
    """A node that ONNX Runtime runs, and why."""

    node: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node}: {self.reason}"


def leave(
    graph: Graph, given: object, refused: Mapping[str, str], refusals: Mapping[str, str]
) -> list[Left]:
    """Replace what the importer lacks by segments; return the nodes that left.

    `refused` are the names of others that it was seen to refuse, each with the reason, `refusals`
    the first results of those that rewrites refuse.

    Raises: StitchError where a segment's result has no known shape and one of ours reads it.
    """
    reasons = (
        refused.get(node.name) or refusals.get(first_result(node)) or _lacks(graph, node)
        for node in graph.nodes
    )
    lacking = {n: why for n, why in enumerate(reasons) if why}
    if not lacking:
        return []
    stages = _stages(graph, lacking)
    nodes: list[onnx.NodeProto] = []
    waiting = sorted(set(stages[n] for n in lacking))
    for n, node in enumerate(graph.nodes):
        while waiting and n not in lacking and stages[n] > waiting[0]:
            nodes.append(_segment(graph, lacking, stages, waiting.pop(0), given))
        if n not in lacking:
            nodes.append(node)
    nodes += [_segment(graph, lacking, stages, stage, given) for stage in waiting]
    left = [Left(label(graph.nodes[n]), why) for n, why in lacking.items()]
    graph.nodes = nodes
    return left


def _is_lacking(node: onnx.NodeProto) -> bool:
    return (not has_converter(node) and node.op_type not in ("Constant", "If")) or bool(
        why_not(node)
    )


def _lacks(graph: Graph, node: onnx.NodeProto) -> str:
    """Return why a node leaves, "" if it stays."""
    inner = [each for body in bodies(node) for each in body.node]
    if any(_is_lacking(each) for each in (node, *inner)):
        return why_not(node) or "no converter"
    for name in filter(None, (*node.output, *consumed(node))):
        known = graph.type_of(name)
        if known is None or not known.static:
            return f"the shape of {name!r} depends on data, or it is no tensor"
    return ""


def _stages(graph: Graph, lacking: dict[int, str]) -> list[int]:
    """Return for each node how many segments are upstream of it, its own not counted.

    In the order of the graph; a node of ours that reads a segment is one stage behind it.
    """
    makers = {name: n for n, node in enumerate(graph.nodes) for name in node.output if name}
    stages: list[int] = []
    for node in graph.nodes:
        before = [makers[name] for name in consumed(node) if name in makers]
        mine = len(stages) in lacking
        stages.append(max((stages[p] + (p in lacking and not mine) for p in before), default=0))
    return stages


def _segment(
    graph: Graph, lacking: dict[int, str], stages: list[int], stage: int, given: object
) -> onnx.NodeProto:
    """Return the node of all that leave at a stage. Raises: StitchError."""
    inside = [graph.nodes[n] for n in lacking if stages[n] == stage]
    made = {name for node in inside for name in node.output if name}
    read = dict.fromkeys(name for node in inside for name in consumed(node) if name not in made)
    outside = [node for n, node in enumerate(graph.nodes) if node not in inside]
    wanted = {name for node in outside for name in consumed(node)}
    wanted |= {value.name for value in graph.outputs}
    results = [name for node in inside for name in node.output if name in wanted]
    inputs = [name for name in read if name not in graph.constants]
    stored = [
        numpy_helper.from_array(np.asarray(graph.constants[name], order="C"), name)
        for name in read if name in graph.constants
    ]  # fmt: skip
    for name in (*inputs, *results):
        known = graph.type_of(name)
        if known is None or not known.static:
            rule = f"{name!r} between it and the rest has no known shape"
            raise StitchError(f"{given}, {label(inside[0])}", rule, "run it by itself")
    proto = onnx.helper.make_graph(
        inside, SEGMENT, [_info(graph, n) for n in inputs], [_info(graph, n) for n in results],
        stored,
    )  # fmt: skip
    data = model_of(graph, proto).SerializeToString()
    open_session(data, f"{given}, {label(inside[0])}")
    digest = hashlib.sha256(data).digest()[:DIGEST_BYTES]
    held = graph.add_constant(SEGMENT, np.frombuffer(digest + data, np.uint8))
    types = [f"{graph.type_of(n).dtype}:{','.join(map(str, graph.type_of(n).shape))}"
             for n in results]  # fmt: skip
    return onnx.helper.make_node(
        SEGMENT, [held, *inputs], results, name=inside[0].name, domain=OWN_DOMAIN, types=types
    )


def _info(graph: Graph, name: str) -> onnx.ValueInfoProto:
    known = graph.type_of(name)
    return value_info(name, known.dtype, known.shape)
