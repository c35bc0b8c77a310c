"""The range of integer inputs that index an axis, and clamps where no input can be checked.

TVM reads out of bounds for an index outside its axis, so each index is traced back through
value-preserving operators. Values of graph inputs get bounds, which the runtime checks; an index
computed some other way, and not provably inside, is clamped in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.graph import Graph, attributes, has_input
from tvm_stitch.frontend.rewrites.builder import Builder

# Operators whose elements are elements of these inputs (None: of every input).
PRESERVING: dict[str, tuple[int, ...] | None] = {
    "Cast": (0,), "Concat": None, "DepthToSpace": (0,), "Expand": (0,), "Flatten": (0,),
    "Gather": (0,), "GatherElements": (0,), "GatherND": (0,), "Identity": (0,), "Reshape": (0,),
    "Slice": (0,), "SpaceToDepth": (0,), "Split": (0,), "Squeeze": (0,), "Tile": (0,),
    "Transpose": (0,), "Unsqueeze": (0,), "Where": (1, 2),
}  # fmt: skip
Bounds = tuple[int, int]


def bound_indices(graph: Graph, given: object) -> dict[str, Bounds]:
    """Return inclusive bounds of graph inputs; add Clip-like nodes for other unproven indices.

    Raises: StitchError if a constant index lies outside its axis.
    """
    tracer = _Tracer(graph, given)
    nodes = []
    for node in graph.nodes:
        for extents in _indexed_extents(graph, node):
            proven = tracer.require(node.input[1], -max(extents), max(extents) - 1)
            if not proven or len(set(extents)) > 1:
                nodes.extend(_clamp(graph, node, extents))
        nodes.append(node)
    graph.nodes = nodes
    return tracer.bounds


def _indexed_extents(graph: Graph, node: onnx.NodeProto) -> Iterator[list[int]]:
    """Yield the extents that a node's second input indexes, one a column for GatherND."""
    if node.domain or not has_input(node, 1):
        return
    shape = graph.static_shape(node.input[0])
    if shape is None:
        return
    attrs = attributes(node)
    if node.op_type in ("Gather", "GatherElements", "Scatter", "ScatterElements"):
        yield [shape[attrs.get("axis", 0)]]
    elif node.op_type in ("GatherND", "ScatterND"):
        columns = graph.static_shape(node.input[1])[-1]
        start = attrs.get("batch_dims", 0)
        if columns:
            yield list(shape[start : start + columns])


def _clamp(graph: Graph, node: onnx.NodeProto, extents: list[int]) -> list[onnx.NodeProto]:
    """rewrite: Gather(x, i) -> Gather(x, Min(Max(i, -d), d - 1))"""
    dtype = graph.type_of(node.input[1]).dtype
    low, high = np.array(extents) * -1, np.array(extents) - 1
    if len(extents) == 1:
        low, high = low[0], high[0]
    build = Builder(graph, node)
    raised = build("Max", node.input[1], build.constant(low, dtype))
    node.input[1] = build("Min", raised, build.constant(high, dtype))
    return build.nodes


class _Tracer:
    """Propagates a required range from an index towards the inputs."""

    def __init__(self, graph: Graph, given: object) -> None:
        self.graph, self.given = graph, given
        self.bounds: dict[str, Bounds] = {}
        self._inputs = {value.name for value in graph.inputs}
        self._producers = {name: node for node in graph.nodes for name in node.output if name}

    def require(self, name: str, low: int, high: int) -> bool:
        """Say whether values of `name` lie in the range, given bounds recorded for the inputs."""
        if name in self.graph.constants:
            return self._check_constant(name, low, high)
        if name in self._inputs:
            known = self.graph.type_of(name)
            if known.dtype.kind not in "iu":
                return False
            had = self.bounds.get(name, (low, high))
            self.bounds[name] = max(had[0], low), min(had[1], high)
            return True
        node = self._producers.get(name)
        if node is None or node.domain:
            return False
        if node.op_type in PRESERVING:
            return self._preserving(node, low, high)
        if node.op_type in ("Add", "Sub"):
            return self._shifted(node, low, high)
        return self._range_of(node, name, low, high)

    def _preserving(self, node: onnx.NodeProto, low: int, high: int) -> bool:
        source = self.graph.type_of(node.input[0])
        if node.op_type == "Cast" and (source is None or source.dtype.kind not in "iub"):
            return False
        positions = PRESERVING[node.op_type]
        names = node.input if positions is None else [node.input[p] for p in positions]
        # Every operand is asked, so that each input on the way gets its bounds.
        return all([self.require(name, low, high) for name in names])

    def _shifted(self, node: onnx.NodeProto, low: int, high: int) -> bool:
        offset = self.graph.constant(node, 1)
        if offset is None or offset.size != 1 or offset.dtype.kind not in "iu":
            return False
        shift = int(offset.item()) * (1 if node.op_type == "Add" else -1)
        return self.require(node.input[0], low - shift, high - shift)

    def _range_of(self, node: onnx.NodeProto, name: str, low: int, high: int) -> bool:
        """Compare with what the operator can produce at all."""
        shape = self.graph.static_shape(node.input[0]) if has_input(node, 0) else None
        if shape is None:
            return False
        attrs = attributes(node)
        if node.op_type in ("ArgMax", "ArgMin"):
            return low <= 0 and shape[attrs.get("axis", 0)] - 1 <= high
        if node.op_type == "TopK" and name == node.output[1]:
            return low <= 0 and shape[attrs.get("axis", -1)] - 1 <= high
        return False

    def _check_constant(self, name: str, low: int, high: int) -> bool:
        array = self.graph.constants[name]
        if array.size and not (low <= array.min() and array.max() <= high):
            raise StitchError(
                f"{self.given}, index constant {name!r}",
                f"it holds {array.min()} to {array.max()}, outside {low} to {high}",
                "export the model again",
            )
        return True
