"""The range of integer inputs that index an axis, and clamps where no input can be checked.

TVM reads out of bounds for an index outside its axis, so each index is traced back through
value-preserving operators. Values of graph inputs get bounds, which the runtime checks; an index
computed some other way, and not provably inside, is clamped in the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, attributes, has_input

# Operators whose results hold each element of these inputs (None: of every input), and no other.
PRESERVING: dict[str, tuple[int, ...] | None] = {
    "Cast": (0,), "Concat": None, "DepthToSpace": (0,), "Expand": (0,), "Flatten": (0,),
    "Identity": (0,), "Reshape": (0,), "SpaceToDepth": (0,), "Squeeze": (0,), "Tile": (0,),
    "Transpose": (0,), "Unsqueeze": (0,),
}  # fmt: skip
# Those whose results hold some.
CHOOSING: dict[str, tuple[int, ...]] = {
    "Gather": (0,), "GatherElements": (0,), "GatherND": (0,), "Slice": (0,), "Split": (0,),
    "Where": (1, 2),
}  # fmt: skip
STEPS = 100_000  # ranges followed for one index: there are graphs with exponentially many
Bounds = tuple[int, int]


@dataclass(frozen=True)
class _Indexed:
    """Input `position` of a node indexes axes of these extents, one a column if there are several.

    Negative indices count from the end if they may.
    """

    position: int
    extents: list[int]
    from_end: bool = True

    @property
    def low(self) -> np.ndarray:
        return np.array(self.extents) * (-1 if self.from_end else 0)

    @property
    def high(self) -> np.ndarray:
        return np.array(self.extents) - 1

    def holds_each(self, known: np.ndarray | None) -> bool:
        """Return whether indices in range of the longest axis are in range of their own."""
        if len(set(self.extents)) == 1:
            return True
        return known is not None and bool(np.all((known >= self.low) & (known <= self.high)))


def bound_indices(graph: Graph, given: object) -> dict[str, Bounds]:
    """Return inclusive bounds of graph inputs; add Clip-like nodes for other unproven indices.

    Raises: StitchError if a constant index lies outside its axis.
    """
    tracer = _Tracer(graph, given)
    nodes = []
    for node in graph.nodes:
        for indexed in _indexed(graph, node):
            name, low, high = node.input[indexed.position], indexed.low, indexed.high
            proven = tracer.require(name, int(low.min()), int(high.max()))
            if not proven or not indexed.holds_each(graph.constants.get(name)):
                nodes.extend(_clamp(graph, node, indexed))
        nodes.append(node)
    graph.nodes = nodes
    return tracer.bounds


def _indexed(graph: Graph, node: onnx.NodeProto) -> Iterator[_Indexed]:
    """Yield what a node's input indexes, if it does."""
    if node.domain or not has_input(node, 1):
        return
    shape = graph.static_shape(node.input[0])
    if shape is None:
        return
    attrs = attributes(node)
    match node.op_type:
        case "Gather" | "GatherElements" | "Scatter" | "ScatterElements":
            yield _Indexed(1, [shape[attrs.get("axis", 0)]])
        case "GatherND" | "ScatterND":
            indices = graph.static_shape(node.input[1])
            columns = indices[-1] if indices else 0
            start = attrs.get("batch_dims", 0)
            if columns:
                yield _Indexed(1, list(shape[start : start + columns]))
        case "RoiAlign" if has_input(node, 2):
            yield _Indexed(2, [shape[0]], from_end=False)
        case "MaxUnpool":
            pooled = graph.static_shape(node.output[0])
            if pooled is not None:
                yield _Indexed(1, [math.prod(pooled)], from_end=False)


def _clamp(graph: Graph, node: onnx.NodeProto, indexed: _Indexed) -> list[onnx.NodeProto]:
    """rewrite: Gather(x, i) -> Gather(x, Min(Max(i, -d), d - 1))"""
    name = node.input[indexed.position]
    dtype = graph.type_of(name).dtype
    limits = np.iinfo(dtype)
    low, high = (np.clip(ends, limits.min, limits.max) for ends in (indexed.low, indexed.high))
    if len(indexed.extents) == 1:
        low, high = low[0], high[0]
    build = Builder(graph, node)
    raised = build("Max", name, build.constant(low, dtype))
    node.input[indexed.position] = build("Min", raised, build.constant(high, dtype))
    return build.nodes


@dataclass(frozen=True)
class _Range:
    """That values of `name` lie in a range; `whole`: each element counts, not only some."""

    name: str
    low: int
    high: int
    whole: bool = True

    def of(self, names: Iterable[str], whole: bool = True, shift: int = 0) -> list[_Range]:
        whole = self.whole and whole
        return [_Range(name, self.low + shift, self.high + shift, whole) for name in names]


class _Tracer:
    """Propagates a required range from an index towards the inputs."""

    def __init__(self, graph: Graph, given: object) -> None:
        self.graph, self.given = graph, given
        self.bounds: dict[str, Bounds] = {}
        self._inputs = {value.name for value in graph.inputs}
        self._producers = {name: node for node in graph.nodes for name in node.output if name}

    def require(self, name: str, low: int, high: int) -> bool:
        """Say whether values of `name` lie in the range, given bounds recorded for the inputs."""
        proven, seen, waiting = True, set(), [_Range(name, low, high)]
        while waiting:
            wanted = waiting.pop()
            if wanted in seen:
                continue
            seen.add(wanted)
            sources = self._sources(wanted)
            if sources is None:
                # The others are still asked, so that each input on the way gets its bounds.
                proven = proven and self._holds(wanted)
            elif len(seen) > STEPS:
                return False
            else:
                waiting.extend(sources)
        return proven

    def _sources(self, wanted: _Range) -> list[_Range] | None:
        """Return what must hold of other values instead, None if there is nothing more to ask."""
        node = self._producers.get(wanted.name)
        if node is None or node.domain:
            return None
        if node.op_type in ("Add", "Sub"):
            offset = self.graph.constant(node, 1)
            if offset is None or offset.size != 1 or offset.dtype.kind not in "iu":
                return None
            shift = int(offset.item()) * (-1 if node.op_type == "Add" else 1)
            return wanted.of(node.input[:1], shift=shift)
        if node.op_type == "Cast":
            source = self.graph.type_of(node.input[0])
            if source is None or source.dtype.kind not in "iub":
                return None
        if node.op_type in CHOOSING:
            return wanted.of((node.input[p] for p in CHOOSING[node.op_type]), whole=False)
        if node.op_type in PRESERVING:
            positions = PRESERVING[node.op_type]
            return wanted.of(
                node.input if positions is None else [node.input[p] for p in positions]
            )
        return None

    def _holds(self, wanted: _Range) -> bool:
        name, low, high = wanted.name, wanted.low, wanted.high
        if name in self.graph.constants:
            return self._check_constant(wanted)
        if name in self._inputs:
            if self.graph.type_of(name).dtype.kind not in "iu" or not wanted.whole:
                return False
            had = self.bounds.get(name, (low, high))
            self.bounds[name] = max(had[0], low), min(had[1], high)
            return True
        most = self._most(name)
        return most is not None and low <= 0 and most <= high

    def _most(self, name: str) -> int | None:
        """Return the largest value of what is never negative, None if it is not known."""
        node = self._producers.get(name)
        shape = self.graph.static_shape(node.input[0]) if node and has_input(node, 0) else None
        if shape is None or node.domain:
            return None
        attrs = attributes(node)
        if node.op_type in ("ArgMax", "ArgMin"):
            return shape[attrs.get("axis", 0)] - 1
        if node.op_type == "TopK" and name == node.output[1]:
            return shape[attrs.get("axis", -1)] - 1
        return None

    def _check_constant(self, wanted: _Range) -> bool:
        array = self.graph.constants[wanted.name]
        if not array.size or (wanted.low <= array.min() and array.max() <= wanted.high):
            return True
        if not wanted.whole:
            return False
        raise StitchError(
            f"{self.given}, index constant {wanted.name!r}",
            f"it holds {array.min()} to {array.max()}, outside {wanted.low} to {wanted.high}",
            "export the model again",
        )
