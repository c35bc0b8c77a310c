"""One pass over the nodes in order: infer types, fold what is constant, apply rewrites.

A rewrite sees inferred types of the node's inputs and outputs and what was folded before it. Nodes
it returns are visited in turn, by every rewrite but those they come from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

import onnx

from tir_schedules.fuel import spend
from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.divisors import check_divisor
from tvm_stitch.frontend.importer.known import why_not
from tvm_stitch.frontend.onnx_graph.fold import Folder
from tvm_stitch.frontend.onnx_graph.graph import Graph, first_result, label
from tvm_stitch.frontend.onnx_graph.infer import infer_node, type_proto, value_type
from tvm_stitch.frontend.onnx_graph.limits import check_size
from tvm_stitch.frontend.onnx_graph.node_rules import check_node
from tvm_stitch.frontend.segments import OR_LEAVE

# The second is of a type that the operator does not have, such as a Cast to a complex number.
TYPE_ERRORS = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError)
Rewrite = Callable[[Graph, onnx.NodeProto], Sequence[onnx.NodeProto] | None]


def normalise(
    graph: Graph,
    rewrites: Sequence[Rewrite],
    given: object,
    optional: Collection[Rewrite] = (),
    try_types: Callable[[Graph, onnx.NodeProto], None] | None = None,
    refused: dict[str, str] | None = None,
) -> None:
    """Bring the graph to the form that TVM's importer takes, and type its outputs.

    The importer does without the `optional` rewrites too: they cost fuel. `try_types` finds types
    that ONNX does not know. `refused` takes what rewrites refuse, by the name of a node's first
    result, each with the reason.

    Raises: StitchError naming a node whose inputs do not fit it, or one that is refused if nothing
    takes it.
    """
    folder = Folder(graph)
    for value in graph.inputs:
        graph.types[value.name] = value_type(value.type)
    waiting, done = deque((node, frozenset()) for node in graph.nodes), []
    while waiting:
        node, applied = waiting.popleft()
        where = f"{given}, {label(node)}"
        check_node(graph, node, where)
        if try_types is None and (reason := why_not(node)):
            raise StitchError(where, reason, f"use another, {OR_LEAVE}")
        try:
            infer_node(graph, node)
        except TYPE_ERRORS as error:
            reason = str(error).strip().splitlines()[0]
            raise StitchError(
                where,
                f"its inputs do not fit ({reason})",
                "check the input shapes and the model",
            ) from error
        if try_types is not None:
            try_types(graph, node)
        for name in filter(None, node.output):
            if (known := graph.types.get(name)) is not None and known.shape is not None:
                check_size(known.shape, known.dtype.itemsize, f"{where}, result {name!r}")
        check_divisor(graph, node, where)
        if folder.fold(node):
            continue
        for change in rewrites:
            new = None if change in applied else _changed(change, graph, node, refused)
            if new is not None and (change not in optional or spend(change.__name__, node.name)):
                waiting.extendleft((n, applied | {change}) for n in reversed(new))
                if refused is not None:
                    refused.pop(first_result(node), None)
                break
        else:
            done.append(node)
    graph.nodes = done
    for output in graph.outputs:
        if (known := graph.type_of(output.name)) is not None:
            output.type.CopyFrom(type_proto(known))
    graph.drop_unused()


def _changed(
    change: Rewrite, graph: Graph, node: onnx.NodeProto, refused: dict[str, str] | None
) -> Sequence[onnx.NodeProto] | None:
    """Return what a rewrite makes of a node, None where it leaves it or refuses it.

    Raises: StitchError as the rewrite does, if nothing takes what is refused.
    """
    try:
        return change(graph, node)
    except StitchError as error:
        if refused is None:
            raise StitchError(error.given, error.rule, f"{error.remedy}, {OR_LEAVE}") from error
        refused[first_result(node)] = error.rule
        return None
