"""Sequences of tensors whose items are known: nothing of them is left but the tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input

_MOST = 4096  # items that a tensor is split into


def sequences(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: SequenceAt(SequenceInsert(SequenceConstruct(x, z), y, 1), 2) -> z

    A place that is no constant leaves the node as it is. Raises: StitchError for one outside.
    """
    rule = None if node.domain else _RULES.get(node.op_type)
    return None if rule is None else rule(graph, node)


def _construct(graph: Graph, node: onnx.NodeProto) -> None:
    graph.sequences[node.output[0]] = tuple(node.input)


def _identity(graph: Graph, node: onnx.NodeProto) -> None:
    if node.input[0] in graph.sequences:
        graph.sequences[node.output[0]] = graph.sequences[node.input[0]]


def _insert(graph: Graph, node: onnx.NodeProto) -> list | None:
    items = graph.sequences.get(node.input[0])
    if items is None or (place := _place(graph, node, 2, len(items), len(items) + 1)) is None:
        return None
    return _made(graph, node, (*items[:place], node.input[1], *items[place:]))


def _erase(graph: Graph, node: onnx.NodeProto) -> list | None:
    items = graph.sequences.get(node.input[0])
    if items is None or (place := _place(graph, node, 1, len(items) - 1, len(items))) is None:
        return None
    return _made(graph, node, (*items[:place], *items[place + 1 :]))


def _at(graph: Graph, node: onnx.NodeProto) -> list | None:
    items = graph.sequences.get(node.input[0])
    if items is None or (place := _place(graph, node, 1, 0, len(items))) is None:
        return None
    build = Builder(graph, node)
    build("Identity", items[place], out=node.output[0])
    return build.nodes


def _length(graph: Graph, node: onnx.NodeProto) -> list | None:
    items = graph.sequences.get(node.input[0])
    if items is None:
        return None
    build = Builder(graph, node)
    build("Identity", build.constant(len(items)), out=node.output[0])
    return build.nodes


def _split(graph: Graph, node: onnx.NodeProto) -> list | None:
    shape, attrs = graph.static_shape(node.input[0]), attributes(node)
    sizes = graph.constant(node, 1)
    if not shape or (has_input(node, 1) and (sizes is None or sizes.ndim > 1)):
        return None
    axis = attrs.get("axis", 0) % len(shape)
    extent, build = shape[axis], Builder(graph, node)
    dropped = sizes is None and not attrs.get("keepdims", 1)
    if sizes is not None and sizes.ndim:
        lengths = sizes.tolist()
    else:
        step = 1 if sizes is None else max(1, int(sizes))
        if extent > step * _MOST:
            raise _refused(node, f"{-(-extent // step)} parts are more than {_MOST}")
        lengths = [min(step, extent - n) for n in range(0, extent, step)]
    if sum(lengths) != extent or min(lengths, default=0) < 0:
        raise _refused(node, f"parts of {lengths} are not the {extent} of its axis")
    items, low = [], 0
    for length in lengths:
        item = build.slice(node.input[0], low, low + length, axis)
        if dropped:
            item = build.reshape(item, [*shape[:axis], *shape[axis + 1 :]])
        items.append(item)
        low += length
    return build.nodes + _made(graph, node, tuple(items))


def _concat(graph: Graph, node: onnx.NodeProto) -> list | None:
    items, attrs = graph.sequences.get(node.input[0]), attributes(node)
    if not items:
        return None
    build, axis = Builder(graph, node), attrs["axis"]
    if attrs.get("new_axis", 0):
        items = [build.unsqueeze(item, axis) for item in items]
    build("Concat", *items, out=node.output[0], axis=axis)
    return build.nodes


def _place(graph: Graph, node: onnx.NodeProto, operand: int, default: int, end: int) -> int | None:
    """Return a place in a sequence, counted from its front; `end` is the first behind those."""
    if not has_input(node, operand):
        return default
    given = graph.constant(node, operand)
    if given is None or given.size != 1:
        return None
    count = len(graph.sequences[node.input[0]])
    place = int(np.reshape(given, ()))
    place += count if place < 0 else 0
    if not 0 <= place < end:
        raise _refused(node, f"place {int(np.reshape(given, ()))} is outside a sequence of {count}")
    return place


def _refused(node: onnx.NodeProto, rule: str) -> StitchError:
    return StitchError(f"{node.op_type} {node.output[0]!r}", rule, "export the model again")


def _made(graph: Graph, node: onnx.NodeProto, items: Sequence[str]) -> list:
    graph.sequences[node.output[0]] = tuple(items)
    op = "SequenceConstruct" if items else "SequenceEmpty"
    return [onnx.helper.make_node(op, list(items), [node.output[0]], name=node.name)]


_RULES = {
    "ConcatFromSequence": _concat,
    "Identity": _identity,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
