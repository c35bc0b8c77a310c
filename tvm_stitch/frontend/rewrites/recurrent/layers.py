"""Recurrent layers as loops over a step, the products with the inputs of all steps as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tvm_stitch.errors import StitchError
from tvm_stitch.frontend.onnx_graph.builder import Builder
from tvm_stitch.frontend.onnx_graph.graph import Graph, ValueType, attributes, has_input
from tvm_stitch.frontend.onnx_graph.steps import StepBuilder
from tvm_stitch.frontend.rewrites.recurrent.activations import Activation, activations
from tvm_stitch.frontend.rewrites.recurrent.cells import CELLS, Gates

RECURRENT_OPS = ("GRU", "LSTM", "RNN")


@dataclass(frozen=True)
class _Layer:
    """A node's sizes and operands; states are two-dimensional: (batch, hidden)."""

    build: Builder
    node: onnx.NodeProto
    dtype: np.dtype
    steps: int
    batch: int
    depth: int
    hidden: int
    is_batch_first: bool
    lengths: str | None

    def operand(self, position: int, direction: int, shape: Sequence[int]) -> str | None:
        """Return what a direction has of an operand, None if it is not given."""
        if not has_input(self.node, position):
            return None
        place = self.build.constant(direction)
        return self.build.reshape(
            self.build("Gather", self.node.input[position], place, axis=0), shape
        )

    def state(self, position: int, direction: int) -> str:
        """Return the state before the first step."""
        shape = (self.batch, self.hidden)
        if not has_input(self.node, position):
            return self.build.constant(np.zeros(shape), self.dtype)
        place = self.build.constant(direction)
        axis = 1 if self.is_batch_first else 0
        state = self.build("Gather", self.node.input[position], place, axis=axis)
        self.build.graph.types[state] = self.kind(*shape)
        return state

    def kind(self, *shape: int) -> ValueType:
        return ValueType(self.dtype, shape)


def recurrent(graph: Graph, node: onnx.NodeProto) -> list | None:
    """rewrite: LSTM(x, w, r) -> xw = x @ w; for each step t: h, c = cell(xw[t] + h @ r, c)

    The loop has its step once, between markers.
    """
    if node.op_type not in RECURRENT_OPS or node.domain:
        return None
    shape, known = graph.static_shape(node.input[0]), graph.type_of(node.input[0])
    weights = graph.static_shape(node.input[2])
    where = f"{node.op_type} {node.name or node.output[0]!r}"
    if shape is None or weights is None or len(shape) != 3:
        raise StitchError(where, "the shapes of its inputs are unknown", "bind all dimensions")
    attrs, build = attributes(node), Builder(graph, node)
    cell = CELLS[node.op_type]
    is_batch_first = bool(attrs.get("layout", 0))
    batch, steps = shape[:2] if is_batch_first else shape[1::-1]
    lengths = node.input[4] if has_input(node, 4) else None
    sizes = steps, batch, shape[2], weights[2]
    layer = _Layer(build, node, known.dtype, *sizes, is_batch_first, lengths)
    x = node.input[0]
    if is_batch_first:
        x = build("Transpose", x, perm=[1, 0, 2])
    rows = build.reshape(x, [steps * batch, shape[2]])
    way = attrs.get("direction", b"forward").decode()
    functions = activations(attrs, cell.activations, weights[0], where)
    outputs, finals = [], []
    for direction, chosen in enumerate(functions):
        backwards = way == "reverse" or direction == 1
        made, final = _direction(layer, cell, rows, direction, backwards, chosen, attrs)
        outputs.append(made)
        finals.append(final)
    _put(layer, outputs, finals)
    return build.nodes


def _direction(layer: _Layer, cell, rows: str, direction: int, backwards: bool,
               chosen: list[Activation], attrs: dict) -> tuple[str, list[str]]:  # fmt: skip
    """Return the hidden states of all steps, (steps, batch, hidden), and the last states."""
    build, hidden, gates = layer.build, layer.hidden, cell.gates
    inputs = layer.operand(1, direction, (gates * hidden, layer.depth))
    recurrent_weights = layer.operand(2, direction, (gates * hidden, hidden))
    bias = layer.operand(3, direction, (2, gates * hidden))
    peepholes = layer.operand(7, direction, (3, hidden)) if cell.has_memory else None
    products = build("MatMul", rows, build("Transpose", inputs, perm=[1, 0]))
    to = Gates(build, layer.dtype, hidden, chosen, attrs, peepholes)
    step = cell.prepare(to, build("Transpose", recurrent_weights, perm=[1, 0]), bias)
    if step.bias is not None:
        products = build("Add", products, step.bias)
    by_step = build.reshape(products, [layer.steps, layer.batch, gates * hidden])
    loop = StepBuilder(build, layer.steps)
    build.graph.types[by_step] = layer.kind(layer.steps, layer.batch, gates * hidden)
    here = loop.each(by_step, backwards)
    places = (5, 6) if cell.has_memory else (5,)
    state = [loop.carry(layer.state(place, direction)) for place in places]
    new = step(here, state)
    made = new[0]
    if layer.lengths is not None:
        inside = loop.each(_inside(layer), backwards)
        made = build("Where", inside, new[0], build.constant(0, layer.dtype))
        new = [build("Where", inside, a, b) for a, b in zip(new, state, strict=True)]
    kind = layer.kind(layer.batch, hidden)
    *final, whole = loop.end([(name, kind) for name in new], [(made, kind)], [backwards])
    return whole, final


def _inside(layer: _Layer) -> str:
    """Return which sequences have each step: (steps, batch, 1)."""
    build = layer.build
    dtype = build.graph.type_of(layer.lengths).dtype
    steps = build.constant(np.arange(layer.steps).reshape(-1, 1, 1), dtype)
    inside = build("Less", steps, build.reshape(layer.lengths, [1, layer.batch, 1]))
    build.graph.types[inside] = ValueType(np.dtype(bool), (layer.steps, layer.batch, 1))
    return inside


def _put(layer: _Layer, outputs: list[str], finals: list[list[str]]) -> None:
    """Make the node's results of what its directions made."""
    build, names = layer.build, [*layer.node.output, "", "", ""]
    sizes = layer.batch, layer.hidden
    if names[0]:
        lines = [build.reshape(made, [layer.steps, 1, *sizes]) for made in outputs]
        order = [2, 0, 1, 3] if layer.is_batch_first else [0, 1, 2, 3]
        build("Transpose", _joined(build, lines, 1), perm=order, out=names[0])
    for place, name in enumerate(names[1 : 1 + len(finals[0])]):
        if not name:
            continue
        lines = [build.reshape(final[place], [1, *sizes]) for final in finals]
        order = [1, 0, 2] if layer.is_batch_first else [0, 1, 2]
        build("Transpose", _joined(build, lines, 0), perm=order, out=name)


def _joined(build: Builder, lines: list[str], axis: int) -> str:
    return lines[0] if len(lines) == 1 else build("Concat", *lines, axis=axis)
